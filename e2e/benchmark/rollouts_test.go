package benchmark

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

func TestRollouts_AreReadAsTheyWereWritten(t *testing.T) {
	rows := []Rollout{
		{Case: "changed", Kind: "A", Way: "NodePort", KeepAlive: "off", Requests: 10, FailedPlain: 3, ClassesPlain: "3 (connect 2, reset 1)", P99: 56.5, P99Plain: 51.9, Seconds: 21},
		{Case: "deleted", Kind: "B", Way: "ClusterIP", KeepAlive: "on", Requests: 20, Failed: 1, Refused: 2, Classes: "3 (connect 3)", Seconds: 0.5},
	}
	var b bytes.Buffer
	if err := WriteRollouts(&b, rows); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRollouts(&b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadRollouts_RefusesOtherData(t *testing.T) {
	for _, text := range []string{"", "a,b\n1,2\n"} {
		if _, err := ReadRollouts(bytes.NewBufferString(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// The chart is drawn by make bench-rollouts. Its drawing can change without a new run.
func TestRolloutsChart_ShowsTheDataInDocs(t *testing.T) {
	const data, drawing = "../../docs/benchmarks/rollouts.csv", "../../docs/benchmarks/rollouts.svg"
	f, err := os.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := ReadRollouts(f)
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, drawing, []byte(RolloutsChart(rows)))
}
