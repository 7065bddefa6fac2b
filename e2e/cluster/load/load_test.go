package load

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
)

func TestCanonicalName(t *testing.T) {
	for in, want := range map[string]string{
		"manager:dev":        "docker.io/library/manager:dev",
		"team/manager:dev":   "docker.io/team/manager:dev",
		"ghcr.io/acme/app:1": "ghcr.io/acme/app:1",
		"manager":            "docker.io/library/manager:latest",
	} {
		ref, err := name.NewTag(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := canonicalName(ref); got != want {
			t.Errorf("canonicalName(%s) = %s, want %s", in, got, want)
		}
	}
}
