// Package traffic judges what clients met while things happened to the objects that serve
// them: each failed request has a documented cause or is a defect, and so is a status that
// says something else than the requests for too long.
package traffic

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/platform-operator/platform-operator/e2e/load"
)

const (
	// recent is how long a request says something about the present.
	recent = 5 * time.Second
	// tolerated is how long a status may differ from what clients meet.
	tolerated = 30 * time.Second
)

// Client sends requests to an object. A probe opens connections, and shows what clients
// meet that come now; others may have been served by the same pod for a long time.
type Client struct {
	Object, Name string
	Probe        bool
	image        string // that serves, as the status says
}

// Failure is a request that failed.
type Failure struct {
	Client
	Due, Ended time.Time
	Class      load.Class
	Err        string
}

// Event is something that happened, from its cause until the objects have settled.
type Event struct {
	Name       string
	Object     string // "" for all
	Start, End time.Time
	Err        string
	requests   int
	failed     int
	attributed int
}

// Cause is why requests may fail. An empty list means all.
type Cause struct {
	Events, Objects, Clients []string
	Classes                  []load.Class
	Says                     string        // is in the error; "" for any
	Within                   time.Duration // since the event began; 0 for all of it
	// Unseen is how long the status may not know it, if longer than usual.
	Unseen    time.Duration
	Why, Page string
}

func (c Cause) explains(e Event, f Failure) bool {
	end := e.End
	if c.Within > 0 {
		end = e.Start.Add(c.Within)
	}
	return has(c.Events, e.Name) && has(c.Objects, f.Object) && has(c.Clients, f.Name) && has(c.Classes, f.Class) && strings.Contains(f.Err, c.Says) &&
		(e.Object == "" || e.Object == f.Object) && !f.Ended.Before(e.Start) && !f.Due.After(end)
}

func has[T comparable](list []T, one T) bool { return len(list) == 0 || slices.Contains(list, one) }

// Disagreement is a status that differed for too long from what clients met.
type Disagreement struct {
	Object, What, Event string
	image               string
	Since               time.Time
	For                 time.Duration
}

// Judge collects requests and statuses while events happen.
type Judge struct {
	Causes []Cause

	mu            sync.Mutex
	start         time.Time
	events        []*Event
	requests      map[Client]int
	images        map[string]string // of each object
	compared      map[string]int    // of each image
	failures      []Failure
	good, bad     map[string]time.Time // the latest of each object
	disagree      map[[2]string]*Disagreement
	disagreements []*Disagreement
}

// NewJudge returns a judge. The first event is that nothing happens.
func NewJudge(causes []Cause, now time.Time) *Judge {
	return &Judge{
		Causes: causes, start: now, events: []*Event{{Name: "nothing", Start: now}}, requests: map[Client]int{}, images: map[string]string{}, compared: map[string]int{},
		good: map[string]time.Time{}, bad: map[string]time.Time{}, disagree: map[[2]string]*Disagreement{},
	}
}

// Begin says that something begins to happen. It lasts until something else does.
func (j *Judge) Begin(name, object string, now time.Time) *Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events[len(j.events)-1].End = now
	e := &Event{Name: name, Object: object, Start: now}
	j.events = append(j.events, e)
	return e
}

// End is the end of the last event.
func (j *Judge) End(now time.Time) { j.Begin("the end", "", now) }

// Observe returns the function that takes the requests of a client.
func (j *Judge) Observe(c Client) func(due, ended time.Time, class load.Class, err error) {
	return func(due, ended time.Time, class load.Class, err error) {
		j.mu.Lock()
		defer j.mu.Unlock()
		c.image = j.images[c.Object]
		j.requests[c]++
		j.events[len(j.events)-1].requests++
		if class == "" {
			if c.Probe {
				j.good[c.Object] = ended
			}
			return
		}
		j.bad[c.Object] = ended
		j.failures = append(j.failures, Failure{Client: c, Due: due, Ended: ended, Class: class, Err: err.Error()})
	}
}

// Compare compares the status of an object with what clients meet now.
func (j *Judge) Compare(object, image string, available, ready bool, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.images[object] = image
	j.compared[image]++
	good, bad := now.Sub(j.good[object]) < recent, now.Sub(j.bad[object]) < recent
	event := j.events[len(j.events)-1]
	limit := tolerated
	for _, c := range j.Causes {
		if has(c.Events, event.Name) && has(c.Objects, object) {
			limit = max(limit, c.Unseen)
		}
	}
	for what, differs := range map[string]bool{
		"Available=True, and each probe fails":  available && bad && !good,
		"Available=False, and no request fails": !available && good && !bad,
		"Ready=True, and requests fail":         ready && bad,
	} {
		key := [2]string{object, what}
		d := j.disagree[key]
		switch {
		case !differs:
			delete(j.disagree, key)
		case d == nil:
			j.disagree[key] = &Disagreement{Object: object, image: image, What: what, Event: event.Name, Since: now}
		default:
			if d.For <= limit && now.Sub(d.Since) > limit {
				j.disagreements = append(j.disagreements, d)
			}
			d.For = now.Sub(d.Since)
		}
	}
}

// Defects returns the report, and how many defects it lists.
func (j *Judge) Defects() (report string, defects int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	explained, groups, order := map[string]int{}, map[string][]Failure{}, []string(nil)
	for _, f := range j.failures {
		e, why := j.attribute(f)
		e.failed++
		if why != "" {
			e.attributed++
			explained[why]++
			continue
		}
		key := fmt.Sprintf("%s, %s, client %q, %s, %s", j.name(e), f.Object, f.Name, f.image, f.Class)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], f)
	}
	var b strings.Builder
	total := j.table(&b)
	for _, why := range slices.Sorted(maps.Keys(explained)) {
		fmt.Fprintf(&b, "attributed: %d × %s\n", explained[why], why)
	}
	for _, key := range order {
		first, last := groups[key][0], groups[key][len(groups[key])-1]
		fmt.Fprintf(&b, "DEFECT: %d × %s; due %s to %s: %s\n", len(groups[key]), key,
			j.clock(first.Due), j.clock(last.Due), first.Err)
	}
	for _, d := range j.disagreements {
		fmt.Fprintf(&b, "DEFECT: %s: %s, for %s since %s, after %q\n", d.Object, d.What, d.For.Round(time.Second), j.clock(d.Since), d.Event)
	}
	failedEvents := 0
	for _, e := range j.events {
		if e.Err != "" {
			failedEvents++
			fmt.Fprintf(&b, "DEFECT: %s: %s\n", j.name(e), e.Err)
		}
	}
	fmt.Fprintf(&b, "%d events, %d requests, %d failed, %d attributed, %d unattributed, %d disagreements older than %s, %d events without their outcome\n",
		len(j.events)-2, total.requests, total.failed, total.attributed, total.failed-total.attributed, len(j.disagreements), tolerated, failedEvents)
	return b.String(), len(order) + len(j.disagreements) + failedEvents
}

// attribute returns the event that a failure belongs to, and its cause if there is one.
func (j *Judge) attribute(f Failure) (*Event, string) {
	latest := j.events[0]
	for _, e := range j.events {
		if e.Start.After(f.Ended) {
			break
		}
		latest = e
		for _, c := range j.Causes {
			if c.explains(*e, f) {
				return e, c.Why + " (" + c.Page + ")"
			}
		}
	}
	return latest, ""
}

// table writes a line for each kind of event and each client, and returns the sum.
func (j *Judge) table(b *strings.Builder) (total Event) {
	kinds, times := map[string]*Event{}, map[string]int{}
	for _, e := range j.events[:len(j.events)-1] {
		name := strings.TrimSpace(e.Object + " " + e.Name)
		if kinds[name] == nil {
			kinds[name] = &Event{}
		}
		times[name]++
		for _, sum := range []*Event{kinds[name], &total} {
			sum.requests, sum.failed, sum.attributed = sum.requests+e.requests, sum.failed+e.failed, sum.attributed+e.attributed
		}
	}
	fmt.Fprintf(b, "| event | times | requests | failed | attributed | unattributed |\n|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		e := kinds[name]
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d |\n", name, times[name], e.requests, e.failed, e.attributed, e.failed-e.attributed)
	}
	j.clients(b)
	b.WriteByte('\n')
	return total
}

// clients writes a line for each client and image.
func (j *Judge) clients(b *strings.Builder) {
	failed, differs := map[Client]int{}, map[string]int{}
	for _, f := range j.failures {
		failed[f.Client]++
	}
	for _, d := range j.disagreements {
		differs[d.image]++
	}
	fmt.Fprintf(b, "\n| image | client | requests | failed |\n|---|---|---|---|\n")
	byImage := func(x, y Client) int {
		return cmp.Or(cmp.Compare(x.image, y.image), cmp.Compare(x.Object, y.Object), cmp.Compare(x.Name, y.Name))
	}
	for _, c := range slices.SortedFunc(maps.Keys(j.requests), byImage) {
		fmt.Fprintf(b, "| %s | %s of %s | %d | %d |\n", c.image, c.Name, c.Object, j.requests[c], failed[c])
	}
	fmt.Fprintf(b, "\n| image | comparisons | disagreements |\n|---|---|---|\n")
	for _, image := range slices.Sorted(maps.Keys(j.compared)) {
		fmt.Fprintf(b, "| %s | %d | %d |\n", image, j.compared[image], differs[image])
	}
}

func (j *Judge) name(e *Event) string {
	return fmt.Sprintf("%s at %s", strings.TrimSpace(e.Object+" "+e.Name), j.clock(e.Start))
}

func (j *Judge) clock(t time.Time) string {
	return t.Sub(j.start).Round(100 * time.Millisecond).String()
}
