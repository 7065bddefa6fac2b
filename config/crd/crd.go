// Package crd contains the CustomResourceDefinitions of all kinds, which the
// command line uses without a cluster: their names, and their schemas.
package crd

import (
	"embed"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed bases/*.yaml
var files embed.FS

// All returns the CRDs of all kinds, sorted by the names of their files.
// The caller must not change them.
var All = sync.OnceValues(all)

func all() ([]apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := files.ReadDir("bases")
	if err != nil {
		return nil, fmt.Errorf("listing the CRDs: %w", err)
	}
	var all []apiextensionsv1.CustomResourceDefinition
	for _, e := range entries {
		raw, err := files.ReadFile("bases/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading a CRD: %w", err)
		}
		var def apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &def); err != nil {
			return nil, fmt.Errorf("reading the CRD %s: %w", e.Name(), err)
		}
		all = append(all, def)
	}
	return all, nil
}
