package model

import "testing"

func TestPlanted_StillApplies(t *testing.T) {
	all, err := LoadPlanted("testdata/planted")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if _, err := p.Apply("../../.."); err != nil {
			t.Error(err)
		}
		if p.Defect == "" {
			t.Errorf("%s does not say what it does to a user", p.Name)
		}
	}
}
