package traffic

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/platform-operator/platform-operator/e2e/load"
)

var start = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)

var web = Client{Object: "web", Name: "new", Probe: true}

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func TestJudge_AttributesFailures(t *testing.T) {
	causes := []Cause{
		{Events: []string{"killed"}, Objects: []string{"web"}, Classes: []load.Class{load.Reset}, Within: 10 * time.Second, Why: "it died", Page: "page"},
		{Events: []string{"killed"}, Says: "reset by peer", Why: "it died", Page: "page"},
	}
	for name, c := range map[string]struct {
		client     Client
		due, ended int
		class      load.Class
		attributed bool
	}{
		"documented":                             {web, 101, 102, load.Reset, true},
		"began before and ended after the event": {web, 90, 101, load.Reset, true},
		"before the event":                       {web, 90, 99, load.Reset, false},
		"too late":                               {web, 111, 112, load.Reset, false},
		"another class":                          {web, 101, 102, load.Timeout, false},
		"another object":                         {Client{Object: "app", Name: "new", Probe: true}, 101, 102, load.Reset, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := NewJudge(causes, at(0))
			j.Begin("killed", "web", at(100))
			j.Observe(c.client)(at(c.due), at(c.ended), c.class, errors.New("broken"))
			j.End(at(200))
			report, defects := j.Defects()
			if attributed := defects == 0; attributed != c.attributed || attributed != strings.Contains(report, "attributed: 1 × it died (page)") {
				t.Error(report)
			}
		})
	}
}

func TestJudge_ReportsEventsWithoutTheirOutcome(t *testing.T) {
	j := NewJudge(nil, at(0))
	j.Begin("restart", "web", at(1)).Err = "it is not Ready"
	j.End(at(2))
	if report, defects := j.Defects(); defects != 1 || !strings.Contains(report, "DEFECT: web restart at 1s: it is not Ready") {
		t.Error(report)
	}
}

func TestJudge_ComparesStatusWithRequests(t *testing.T) {
	for name, c := range map[string]struct {
		available, ready bool
		good, bad        bool
		seconds          int
		unseen           time.Duration
		want             string
	}{
		"serving":                   {available: true, ready: true, good: true, seconds: 60},
		"down, and says so":         {bad: true, seconds: 60},
		"down under Available":      {available: true, bad: true, seconds: 60, want: "Available=True, and each probe fails"},
		"for a short time":          {available: true, bad: true, seconds: 29},
		"as long as documented":     {available: true, bad: true, seconds: 60, unseen: time.Minute},
		"some fail under Ready":     {available: true, ready: true, good: true, bad: true, seconds: 60, want: "Ready=True, and requests fail"},
		"some fail while not Ready": {available: true, good: true, bad: true, seconds: 60},
		"serving, and denies it":    {good: true, seconds: 60, want: "Available=False, and no request fails"},
	} {
		t.Run(name, func(t *testing.T) {
			j := NewJudge([]Cause{{Events: []string{"nothing"}, Unseen: c.unseen, Why: "documented"}}, at(0))
			o := j.Observe(web)
			for s := range c.seconds {
				if c.good {
					o(at(s), at(s), "", nil)
				}
				if c.bad {
					o(at(s), at(s), load.Reset, errors.New("broken"))
				}
				j.Compare("web", "nginx:1.30", c.available, c.ready, at(s))
			}
			j.End(at(c.seconds))
			report, defects := j.Defects()
			compared := fmt.Sprintf("| nginx:1.30 | %d | %d |", c.seconds, defects)
			if (defects > 0) != (c.want != "") || !strings.Contains(report, c.want) || !strings.Contains(report, compared) {
				t.Error(report)
			}
		})
	}
}
