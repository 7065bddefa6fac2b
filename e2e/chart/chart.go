// Package chart draws bar and line charts as SVG, for documents: readable in light and
// in dark mode, without scripts and without fonts of its own.
package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Series is a line, or one bar in each group of bars.
type Series struct {
	Name string
	// Values are the y coordinates. NaN leaves a gap.
	Values []float64
}

// Line is a chart with a numeric x axis.
type Line struct {
	Title, XLabel, YLabel string
	X                     []float64
	// LogX scales the x axis logarithmically.
	LogX   bool
	Series []Series
	// Goal, if it is positive, is drawn as a dashed line.
	Goal float64
}

// Bars is a chart of horizontal bars, with one group for each label.
type Bars struct {
	Title, XLabel string
	Labels        []string
	Series        []Series
	// LogFrom, if it is positive, makes the axis logarithmic and is the value at which
	// bars begin.
	LogFrom float64
	// Format writes the value at the end of a bar; the default is %g.
	Format string
}

const (
	// colors is the number of colors in style.
	colors = 4

	style = `<style>
text{font:12px system-ui,sans-serif;fill:#1f2328}.t{font-weight:600;font-size:14px}.s{fill:#59636e;font-size:11px}
.bg{fill:#fff}.g{stroke:#d1d9e0}.a{stroke:#59636e}.goal{stroke:#59636e;stroke-dasharray:5 4}
.l{fill:none;stroke-width:2}.l0{stroke:#0969da}.l1{stroke:#bc4c00}.l2{stroke:#1a7f37}.l3{stroke:#8250df}
.f0{fill:#0969da}.f1{fill:#bc4c00}.f2{fill:#1a7f37}.f3{fill:#8250df}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.s{fill:#9198a1}.bg{fill:#0d1117}.g{stroke:#3d444d}.a,.goal{stroke:#9198a1}
.l0{stroke:#4493f8}.l1{stroke:#f0883e}.l2{stroke:#3fb950}.l3{stroke:#ab7df8}
.f0{fill:#4493f8}.f1{fill:#f0883e}.f2{fill:#3fb950}.f3{fill:#ab7df8}}
</style>
`
	lineWidth, lineHeight = 420, 260
	barsWidth             = 860
	barHeight             = 12
)

// Lines draws several charts side by side, in columns.
func Lines(columns int, charts ...Line) string {
	columns = max(1, min(columns, len(charts)))
	rows := (len(charts) + columns - 1) / columns
	var b strings.Builder
	open(&b, columns*lineWidth, rows*lineHeight)
	for i, c := range charts {
		fmt.Fprintf(&b, `<g transform="translate(%d,%d)">`+"\n", i%columns*lineWidth, i/columns*lineHeight)
		c.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func open(b *strings.Builder, width, height int) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	b.WriteString(style)
	fmt.Fprintf(b, `<rect class="bg" width="%d" height="%d"/>`+"\n", width, height)
}

func text(b *strings.Builder, x, y float64, class, anchor, content string) {
	fmt.Fprintf(b, `<text x="%s" y="%s"%s%s>%s</text>`+"\n", num(x), num(y), attribute("class", class), attribute("text-anchor", anchor), html.EscapeString(content))
}

func attribute(name, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(` %s="%s"`, name, value)
}

func line(b *strings.Builder, class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`+"\n", class, num(x1), num(y1), num(x2), num(y2))
}

// legend writes the names of the series in a row, if there is more than one.
func legend(b *strings.Builder, x, y float64, series []Series) {
	if len(series) < 2 {
		return
	}
	for i, s := range series {
		fmt.Fprintf(b, `<rect class="f%d" x="%s" y="%s" width="10" height="10"/>`+"\n", i%colors, num(x), num(y-9))
		text(b, x+14, y, "s", "", s.Name)
		x += 14 + 6.8*float64(len(s.Name)) + 14
	}
}

func (c Line) draw(b *strings.Builder) {
	const left, right, top, bottom = 56.0, 16.0, 46.0, 42.0
	width, height := lineWidth-left-right, lineHeight-top-bottom
	text(b, 12, 20, "t", "", c.Title)
	legend(b, left, 38, c.Series)
	highest := c.Goal
	for _, s := range c.Series {
		for _, v := range s.Values {
			if !math.IsNaN(v) {
				highest = max(highest, v)
			}
		}
	}
	step := niceStep(highest / 4)
	if highest = math.Ceil(highest/step-1e-9) * step; highest == 0 {
		highest = step
	}
	y := func(v float64) float64 { return top + height - v/highest*height }
	for v := 0.0; v <= highest+step/2; v += step {
		line(b, "g", left, y(v), left+width, y(v))
		text(b, left-6, y(v)+4, "s", "end", label(v))
	}
	x := c.x(left, width)
	shown := math.Inf(-1)
	for _, v := range c.X {
		line(b, "a", x(v), top+height, x(v), top+height+4)
		if x(v)-shown >= 36 { // or else the labels would overlap
			text(b, x(v), top+height+17, "s", "middle", label(v))
			shown = x(v)
		}
	}
	line(b, "a", left, top+height, left+width, top+height)
	text(b, left+width/2, lineHeight-8, "s", "middle", c.XLabel)
	fmt.Fprintf(b, `<text class="s" text-anchor="middle" transform="translate(14,%s) rotate(-90)">%s</text>`+"\n", num(top+height/2), html.EscapeString(c.YLabel))
	if c.Goal > 0 {
		line(b, "goal", left, y(c.Goal), left+width, y(c.Goal))
		text(b, left+width-2, y(c.Goal)-4, "s", "end", "goal")
	}
	for i, s := range c.Series {
		c.drawSeries(b, i%colors, s, x, y)
	}
}

func (c Line) drawSeries(b *strings.Builder, color int, s Series, x, y func(float64) float64) {
	var points []string
	flush := func() {
		if len(points) > 1 {
			fmt.Fprintf(b, `<polyline class="l l%d" points="%s"/>`+"\n", color, strings.Join(points, " "))
		}
		points = nil
	}
	for i, v := range s.Values {
		if i >= len(c.X) {
			break
		}
		if math.IsNaN(v) {
			flush()
			continue
		}
		points = append(points, num(x(c.X[i]))+","+num(y(v)))
		fmt.Fprintf(b, `<circle class="f%d" cx="%s" cy="%s" r="3"/>`+"\n", color, num(x(c.X[i])), num(y(v)))
	}
	flush()
}

// x returns the scale of the x axis.
func (c Line) x(left, width float64) func(float64) float64 {
	if len(c.X) == 0 {
		return func(float64) float64 { return left }
	}
	scale := func(v float64) float64 { return v }
	if c.LogX {
		scale = func(v float64) float64 { return math.Log(max(v, math.SmallestNonzeroFloat64)) }
	}
	const margin = 14.0 // for the first and the last label
	first, last := scale(c.X[0]), scale(c.X[len(c.X)-1])
	if first == last {
		return func(float64) float64 { return left + width/2 }
	}
	return func(v float64) float64 { return left + margin + (scale(v)-first)/(last-first)*(width-2*margin) }
}

// SVG draws the chart.
func (c Bars) SVG() string {
	const right, top, bottom = 70.0, 52.0, 34.0
	longest := 0
	for _, l := range c.Labels {
		longest = max(longest, len([]rune(l)))
	}
	left := 20 + 6.4*float64(longest)
	group := float64(len(c.Series))*barHeight + 8
	height := top + group*float64(len(c.Labels)) + bottom
	width := barsWidth - left - right
	var b strings.Builder
	open(&b, barsWidth, int(height))
	text(&b, 12, 20, "t", "", c.Title)
	legend(&b, left, 40, c.Series)
	highest := 0.0
	for _, s := range c.Series {
		for _, v := range s.Values {
			if !math.IsNaN(v) {
				highest = max(highest, v)
			}
		}
	}
	x, ticks := c.x(left, width, highest)
	for _, v := range ticks {
		line(&b, "g", x(v), top, x(v), height-bottom)
		text(&b, x(v), height-bottom+15, "s", "middle", label(v))
	}
	text(&b, left+width/2, height-5, "s", "middle", c.XLabel)
	format := c.Format
	if format == "" {
		format = "%g"
	}
	for i, l := range c.Labels {
		y := top + group*float64(i) + 4
		text(&b, left-6, y+group/2, "", "end", l)
		for j, s := range c.Series {
			if i >= len(s.Values) || math.IsNaN(s.Values[i]) {
				continue
			}
			at := y + float64(j)*barHeight
			fmt.Fprintf(&b, `<rect class="f%d" x="%s" y="%s" width="%s" height="%d"/>`+"\n", j%colors, num(left), num(at), num(x(s.Values[i])-left), barHeight-1)
			text(&b, x(s.Values[i])+4, at+barHeight-2, "s", "", fmt.Sprintf(format, s.Values[i]))
		}
	}
	line(&b, "a", left, top, left, height-bottom)
	b.WriteString("</svg>\n")
	return b.String()
}

// x returns the scale of the axis of the values, and the values to label.
func (c Bars) x(left, width, highest float64) (scale func(float64) float64, ticks []float64) {
	if c.LogFrom > 0 {
		last := c.LogFrom
		for ticks = []float64{last}; last < highest; ticks = append(ticks, last) {
			last *= 10
		}
		span := max(math.Log(last/c.LogFrom), 1)
		return func(v float64) float64 { return left + math.Log(max(v, c.LogFrom)/c.LogFrom)/span*width }, ticks
	}
	step := niceStep(highest / 5)
	if highest = math.Ceil(highest/step-1e-9) * step; highest == 0 {
		highest = step
	}
	for v := 0.0; v <= highest+step/2; v += step {
		ticks = append(ticks, v)
	}
	return func(v float64) float64 { return left + v/highest*width }, ticks
}

// niceStep returns the smallest 1, 2 or 5 times a power of ten that is at least v.
func niceStep(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= v*(1-1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// label writes a number of an axis.
func label(v float64) string {
	if v >= 10_000 {
		return strconv.FormatFloat(math.Round(v/10)/100, 'f', -1, 64) + "k"
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// num writes a coordinate with at most one decimal place, so that the file is small.
func num(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }
