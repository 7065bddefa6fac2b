package benchmark

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestRolloutsTable_ShowsTheDataInDocs(t *testing.T) {
	f, err := os.Open("../../docs/contributing/benchmarks/rollouts.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := ReadRollouts(f)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/contributing/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	if table := RolloutsTable(rows); !bytes.Contains(page, []byte(table)) {
		t.Errorf("docs/contributing/benchmarks.md does not have the table of the data:\n%s", table)
	}
}
