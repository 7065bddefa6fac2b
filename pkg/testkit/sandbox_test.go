package testkit

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithoutRepeats(t *testing.T) {
	write := func(resource string, code int, version string) Request {
		return Request{Verb: "patch", Resource: resource, Name: "web", Code: code, Body: json.RawMessage(fmt.Sprintf(`{"metadata":{"resourceVersion":%q}}`, version))}
	}
	created := write("deployments", 201, "1")
	first, again, apply := write("deployments", 200, "7"), write("deployments", 200, "9"), write("deployments", 200, "9")
	get := Request{Verb: "get", Resource: "deployments", Name: "web", Code: 200}
	for name, tc := range map[string]struct {
		requests, want []Request
		limit          int
	}{
		"a write that changed nothing": {limit: 1, requests: []Request{created, first, again, apply}, want: []Request{created, first, apply}},
		"in time":                      {limit: 0, requests: []Request{created, first, again, apply}, want: []Request{created, first, again, apply}},
		"more than allowed":            {limit: 1, requests: []Request{first, again, again, apply}, want: []Request{first, again, apply}},
		"each write changed something": {limit: 3, requests: []Request{created, get, first, apply}, want: []Request{created, get, first, apply}},
		"the next one was refused":     {limit: 1, requests: []Request{again, write("deployments", 409, "9")}, want: []Request{again, write("deployments", 409, "9")}},
		"it was refused itself":        {limit: 1, requests: []Request{write("deployments", 409, "9"), apply}, want: []Request{write("deployments", 409, "9"), apply}},
		"another object":               {limit: 1, requests: []Request{write("services", 200, "9"), apply}, want: []Request{write("services", 200, "9"), apply}},
		"without preconditions":        {limit: 1, requests: []Request{write("deployments", 200, ""), write("deployments", 200, "")}, want: []Request{write("deployments", 200, ""), write("deployments", 200, "")}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, withoutRepeats(tc.requests, tc.limit)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
