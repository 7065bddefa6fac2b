package promrules

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// Every expression of a dashboard is valid once Grafana has inserted the variables.
func TestDashboards_AreValidPromQL(t *testing.T) {
	files, err := filepath.Glob("../../charts/platform-operator/files/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v %v", files, err)
	}
	p := parser.NewParser(parser.Options{})
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Annotations struct{ List []struct{ Name, Expr string } }
			Panels      []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		for _, a := range d.Annotations.List {
			if _, err := p.ParseExpr(strings.ReplaceAll(a.Expr, "$__rate_interval", "5m")); err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(f), a.Name, err)
			}
		}
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				if _, err := p.ParseExpr(strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")); err != nil {
					t.Errorf("%s: %s: %v", filepath.Base(f), panel.Title, err)
				}
			}
		}
	}
}
