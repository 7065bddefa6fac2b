package dashboards

import (
	"encoding/json"
	"fmt"

	"github.com/platform-operator/platform-operator/pkg/telemetry/rules"
)

// The format of Grafana, as far as it is used.
type (
	grafana struct {
		UID           string   `json:"uid"`
		Title         string   `json:"title"`
		Description   string   `json:"description"`
		Tags          []string `json:"tags"`
		Editable      bool     `json:"editable"`
		SchemaVersion int      `json:"schemaVersion"`
		Refresh       string   `json:"refresh"`
		Time          fields   `json:"time"`
		Links         []link   `json:"links"`
		Annotations   fields   `json:"annotations"`
		Templating    fields   `json:"templating"`
		Panels        []panel  `json:"panels"`
	}
	// The schema of Grafana requires all fields of a link except for the URL.
	link struct {
		Type        string   `json:"type"`
		Title       string   `json:"title"`
		URL         string   `json:"url,omitempty"`
		Icon        string   `json:"icon"`
		Tooltip     string   `json:"tooltip"`
		Tags        []string `json:"tags"`
		AsDropdown  bool     `json:"asDropdown"`
		IncludeVars bool     `json:"includeVars"`
		KeepTime    bool     `json:"keepTime"`
		TargetBlank bool     `json:"targetBlank"`
	}
	annotation struct {
		Name            string `json:"name"`
		Datasource      fields `json:"datasource"`
		Enable          bool   `json:"enable"`
		IconColor       string `json:"iconColor"`
		Expr            string `json:"expr"`
		TitleFormat     string `json:"titleFormat"`
		TextFormat      string `json:"textFormat"`
		UseValueForTime bool   `json:"useValueForTime,omitempty"`
	}
	variable struct {
		Name       string `json:"name"`
		Label      string `json:"label"`
		Type       string `json:"type"`
		Datasource fields `json:"datasource,omitempty"`
		Query      string `json:"query"`
		Refresh    int    `json:"refresh,omitempty"`
		Sort       int    `json:"sort,omitempty"`
		IncludeAll bool   `json:"includeAll"`
		Multi      bool   `json:"multi"`
		AllValue   string `json:"allValue,omitempty"`
	}
	panel struct {
		ID          int      `json:"id"`
		Type        Type     `json:"type"`
		Title       string   `json:"title"`
		Description string   `json:"description"`
		Datasource  fields   `json:"datasource"`
		GridPos     gridPos  `json:"gridPos"`
		Targets     []target `json:"targets"`
		FieldConfig fields   `json:"fieldConfig"`
		Options     *text    `json:"options,omitempty"`
	}
	text struct {
		Mode    string `json:"mode"`
		Content string `json:"content"`
	}
	gridPos struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	}
	target struct {
		RefID        string `json:"refId"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat,omitempty"`
		Format       string `json:"format,omitempty"`
		Instant      bool   `json:"instant,omitempty"`
	}
	defaults struct {
		Unit       string `json:"unit"`
		Min        *int   `json:"min,omitempty"`
		Links      []link `json:"links,omitempty"`
		Thresholds fields `json:"thresholds"`
	}
	// fields are those of an object, which are written in alphabetical order.
	fields map[string]any
)

const (
	tag   = "platform-operator"
	width = 24
)

var heights = map[Type]int{TimeSeries: 8, Stat: 4, Table: 8, Text: 4}

// JSON returns the dashboard in the format of Grafana.
func (d Dashboard) JSON() ([]byte, error) {
	source := fields{"type": "prometheus", "uid": "${datasource}"}
	annotations, variables := []annotation{}, []variable{{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus"}}
	g := grafana{
		UID: d.UID, Title: d.Title, Description: d.Description, Tags: []string{tag},
		SchemaVersion: 39, Refresh: "1m", Time: fields{"from": "now-6h", "to": "now"},
		Links: []link{
			{Type: "dashboards", Title: "Platform operator", Icon: "external link", Tags: []string{tag}, AsDropdown: true, KeepTime: true},
			{Type: "link", Title: "Runbooks", Icon: "external link", URL: rules.RunbookURL, Tags: []string{}, TargetBlank: true},
		},
	}
	for _, a := range d.Annotations {
		annotations = append(annotations, annotation{a.Title, source, true, a.Color, a.Expr, a.Title, a.Text, a.AtValue})
	}
	for _, v := range d.Variables {
		entry := variable{
			Name: v.Name, Label: v.Title, Type: "query", Datasource: source, Query: v.Values,
			Refresh: 2, Sort: 1, IncludeAll: v.All, Multi: v.All,
		}
		if v.All {
			entry.AllValue = ".*" // also the empty value of namespace, if it is disabled
		}
		variables = append(variables, entry)
	}
	g.Annotations, g.Templating = fields{"list": annotations}, fields{"list": variables}
	x, y, row := 0, 0, 0
	for i, p := range d.Panels {
		if x+p.Width > width {
			x, y, row = 0, y+row, 0
		}
		out := panel{
			ID: i + 1, Type: p.Type, Title: p.Title, Description: p.Description, Datasource: source,
			GridPos: gridPos{x, y, p.Width, heights[p.Type]},
		}
		values := defaults{Unit: p.Unit, Thresholds: colors(p.Steps)}
		for n, q := range p.Queries {
			t := target{RefID: string(rune('A' + n)), Expr: q.Expr, LegendFormat: q.Legend}
			if p.Type == Table {
				t.Format, t.Instant = "table", true // a column for each label, to which links refer
			}
			out.Targets = append(out.Targets, t)
		}
		if p.Type == Text {
			out.Options = &text{"markdown", p.Content}
		}
		if p.Type == TimeSeries {
			values.Min = new(int)
		}
		for _, l := range p.Links {
			values.Links = append(values.Links, link{Type: "link", Title: l.Title, URL: l.URL, Tags: []string{}})
		}
		out.FieldConfig = fields{"defaults": values, "overrides": []any{}}
		g.Panels = append(g.Panels, out)
		x, row = x+p.Width, max(row, heights[p.Type])
	}
	raw, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding dashboard %s: %w", d.UID, err)
	}
	return append(raw, '\n'), nil
}

// colors returns the thresholds of a panel. Without steps, all values have one colour.
func colors(thresholds []Step) fields {
	steps := []fields{{"color": "text", "value": nil}}
	for i, s := range thresholds {
		if i == 0 {
			steps[0]["color"] = s.Color
		} else {
			steps = append(steps, fields{"color": s.Color, "value": s.From})
		}
	}
	return fields{"mode": "absolute", "steps": steps}
}
