package configsource

import (
	"errors"
	"testing"
)

func TestNewSnapshot_Name(t *testing.T) {
	data, binary := map[string]string{"a": "1", "b": "2"}, map[string][]byte{"c": {3}}
	first := NewSnapshot("web", "Kind", "app", data, binary)
	if again := NewSnapshot("web", "Kind", "app", data, binary); again.Name != first.Name {
		t.Errorf("%s, and then %s", first.Name, again.Name)
	}
	names := map[string]bool{first.Name: true}
	for what, c := range map[string]Snapshot{
		"another kind":      NewSnapshot("web", "Other", "app", data, binary),
		"another source":    NewSnapshot("web", "Kind", "else", data, binary),
		"another value":     NewSnapshot("web", "Kind", "app", map[string]string{"a": "1", "b": "3"}, binary),
		"a key more":        NewSnapshot("web", "Kind", "app", map[string]string{"a": "1", "b": "2", "d": ""}, binary),
		"the parts shifted": NewSnapshot("web", "Kind", "app", map[string]string{"a": "1b", "": "2"}, binary),
		"text for binary":   NewSnapshot("web", "Kind", "app", map[string]string{"a": "1", "b": "2", "c": "\x03"}, nil),
		"another object":    NewSnapshot("shop", "Kind", "app", data, binary),
	} {
		if names[c.Name] {
			t.Errorf("%s has the name of one before: %s", what, c.Name)
		}
		names[c.Name] = true
	}
}

func TestSnapshotsOf_ReportsFailedReads(t *testing.T) {
	refused := errors.New("refused")
	for _, optional := range []bool{false, true} {
		uses := []Use{{Field: "spec.envFrom[0]", Name: "cfg", Optional: optional}}
		all, err := SnapshotsOf("web", "WebServer", uses, map[string]Source{"cfg": {Err: refused}})
		if len(all) != 0 || !errors.Is(err, refused) {
			t.Errorf("optional %v: got %v, %v", optional, all, err)
		}
	}
}
