// Package templates holds the configuration files and manifests of the cluster
// and renders them.
package templates

import (
	"bytes"
	"embed"
	"fmt"
	"text/template"
)

//go:embed *.yaml *.toml *.conflist
var templateFiles embed.FS

// Render returns a file of this folder with its settings filled in.
func Render(name string, settings any) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").ParseFS(templateFiles, name)
	if err != nil {
		return nil, fmt.Errorf("parsing template %s: %w", name, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, settings); err != nil {
		return nil, fmt.Errorf("rendering %s: %w", name, err)
	}
	return b.Bytes(), nil
}
