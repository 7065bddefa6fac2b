// Package textdiff compares texts line by line.
package textdiff

// Range is a range of lines of one of the texts, from Start up to but not including End.
type Range struct {
	Start, End int
	// Changed is the first line that differs, or the line before which others are
	// inserted.
	Changed int
}

// Hunk is a group of changes, with the lines around them.
type Hunk struct {
	From, To Range
	// OnlyDeletes reports whether the first of the changes only deletes lines.
	OnlyDeletes bool
	// Lines are the lines as in a unified diff: each begins with a space, + or -.
	Lines []string
}

// Hunks returns the differences of two texts, each with up to context lines that are
// equal before and after it.
func Hunks(from, to []string, context int) []Hunk {
	var hunks []Hunk
	for all := changes(from, to); len(all) > 0; {
		n := 1 // how many changes this hunk has
		for n < len(all) && all[n].i1-all[n-1].i2 <= 2*context {
			n++
		}
		first, last := all[0], all[n-1]
		before, after := min(context, first.i1), min(context, len(from)-last.i2)
		h := Hunk{
			From:        Range{first.i1 - before, last.i2 + after, first.i1},
			To:          Range{first.j1 - before, last.j2 + after, first.j1},
			OnlyDeletes: first.j1 == first.j2,
		}
		add := func(prefix string, lines []string) {
			for _, l := range lines {
				h.Lines = append(h.Lines, prefix+l)
			}
		}
		done := h.From.Start
		for _, c := range all[:n] {
			add(" ", from[done:c.i1])
			add("-", from[c.i1:c.i2])
			add("+", to[c.j1:c.j2])
			done = c.i2
		}
		add(" ", from[done:h.From.End])
		hunks, all = append(hunks, h), all[n:]
	}
	return hunks
}

// Similar reports whether more than half of the lines are equal.
func Similar(from, to []string) bool {
	differ := 0
	for _, c := range changes(from, to) {
		differ += c.i2 - c.i1 + c.j2 - c.j1
	}
	return 2*differ < len(from)+len(to)
}

// change is the replacement of some lines by others.
type change struct{ i1, i2, j1, j2 int }

// changes returns what differs between the longest sequences of lines that are equal,
// then the longest ones before and after those, and so on (Ratcliff and Obershelp).
func changes(from, to []string) []change {
	var all []change
	var within func(c change)
	within = func(c change) {
		equal, length := change{}, 0
		row := make([]int, len(to)+1) // how many lines up to this pair of lines are equal
		for i := c.i1; i < c.i2; i++ {
			last := row
			row = make([]int, len(to)+1)
			for j := c.j1; j < c.j2; j++ {
				if from[i] != to[j] {
					continue
				}
				if row[j+1] = last[j] + 1; row[j+1] > length {
					length = row[j+1]
					equal = change{i + 1 - length, i + 1, j + 1 - length, j + 1}
				}
			}
		}
		switch {
		case length > 0:
			within(change{c.i1, equal.i1, c.j1, equal.j1})
			within(change{equal.i2, c.i2, equal.j2, c.j2})
		case c.i1 < c.i2 || c.j1 < c.j2:
			all = append(all, c)
		}
	}
	within(change{0, len(from), 0, len(to)})
	return all
}
