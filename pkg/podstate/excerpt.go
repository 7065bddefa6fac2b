package podstate

import (
	"regexp"
	"slices"
	"strings"
)

// mostExcerpt is the maximum length of an excerpt in bytes.
const mostExcerpt = 1024

// differing matches what differs between two attempts at the beginning of a line of a
// log: the time, in the formats of nginx and the standard libraries, of RFC 3339, of
// klog, of syslog and of Apache.
var differing = regexp.MustCompile(`^(?:(?:time|ts)=)?["\[(]?(?:` + strings.Join([]string{
	`\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?`,
	`[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+`,
	`[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d`,
	`[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? \d{4}`,
	`\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}`,
}, "|") + `)["\])]?:?\s+`)

// process matches the number of the process and the thread, which nginx writes after
// the level of a message.
var process = regexp.MustCompile(`^(\[[a-z]+\] )\d+#\d+: `)

// Excerpt returns a text of another component, such as the last lines of a log, as it
// is quoted in a message: in one line, without what differs between two attempts, and
// without lines that another one repeats: nginx writes an error in its configuration
// twice. Of a long text the end is kept, because it contains the cause.
func Excerpt(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = differing.ReplaceAllString(strings.TrimSpace(line), "")
		line = process.ReplaceAllString(line, "$1")
		if line = strings.Join(strings.Fields(line), " "); line == "" {
			continue
		}
		if slices.ContainsFunc(lines, func(other string) bool { return strings.HasSuffix(other, line) }) {
			continue
		}
		lines = slices.DeleteFunc(lines, func(other string) bool { return strings.HasSuffix(line, other) })
		lines = append(lines, line)
	}
	return end(join(lines))
}

// join joins lines by a semicolon, unless a line ends with a punctuation mark.
func join(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(line)
		switch {
		case i == len(lines)-1:
		case strings.ContainsAny(line[len(line)-1:], ".,:;!?({["):
			b.WriteString(" ")
		default:
			b.WriteString("; ")
		}
	}
	return b.String()
}

// end shortens a text to its end.
func end(text string) string {
	if len(text) <= mostExcerpt {
		return text
	}
	return "…" + strings.ToValidUTF8(text[len(text)-mostExcerpt:], "")
}
