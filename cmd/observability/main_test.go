package main

import (
	"testing"

	"github.com/platform-operator/platform-operator/pkg/telemetry"
	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

func TestFiles_AreCurrent(t *testing.T) {
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range all {
		golden.File(t, "../../"+path, content)
	}
}

// The label reason has no more values than its definition says.
func TestReasons_AreBounded(t *testing.T) {
	for _, l := range telemetry.Labels() {
		if n := len(telemetry.Reasons()); l.Name == "reason" && n > l.Max {
			t.Errorf("reason has %d values, and %v say at most %d", n, l.In, l.Max)
		}
	}
	t.Logf("%d reasons", len(telemetry.Reasons()))
}
