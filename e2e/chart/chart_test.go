package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

func compare(t *testing.T, name, got string) {
	t.Helper()
	golden.File(t, filepath.Join("testdata", name), []byte(got))
	for d := xml.NewDecoder(strings.NewReader(got)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s is not XML: %v", name, err)
		}
	}
}

func TestLines_DrawsAxesLegendGapsAndGoal(t *testing.T) {
	compare(t, "lines.svg", Lines(2,
		Line{
			Title: "Memory", XLabel: "objects", YLabel: "MiB", X: []float64{100, 300, 1000, 10_000}, LogX: true, Goal: 260,
			Series: []Series{{"at rest", []float64{50, 55, 70, 190}}, {"maximum & more", []float64{60, math.NaN(), 90, 240}}},
		},
		Line{Title: "One point <only>", XLabel: "objects", YLabel: "s", X: []float64{100}, Series: []Series{{"a", []float64{0}}}},
	))
}

func TestBars_DrawsAGroupForEachLabel(t *testing.T) {
	compare(t, "bars.svg", Bars{
		Title: "Failed requests", XLabel: "requests", Labels: []string{"image changed", "node <lost>"}, Format: "%.0f",
		Series: []Series{{"managed", []float64{0, 0}}, {"plain", []float64{222, math.NaN()}}},
	}.SVG())
}

func TestBars_CanBeLogarithmic(t *testing.T) {
	compare(t, "logarithmic.svg", Bars{
		Title: "Failed requests", XLabel: "percent", Labels: []string{"image changed", "node lost"}, Format: "%g %%", LogFrom: 0.1,
		Series: []Series{{"managed", []float64{0, 0.05}}, {"plain", []float64{1.1, 93}}},
	}.SVG())
}

func TestNiceStep(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, 0.03: 0.05, 1: 1, 1.1: 2, 3: 5, 7: 10, 26: 50, 100: 100} {
		if got := niceStep(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("niceStep(%g) = %g, not %g", v, got, want)
		}
	}
}
