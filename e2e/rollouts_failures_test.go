//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// deadline is the progress deadline, in seconds, of rollouts that are expected to
// fail.
const deadline = 20

// failures are changes that cannot serve. The operator has to detect the failure,
// roll back to the healthy revision, and report that, without changing the spec.
func failures() []rolloutCase {
	const stays = "a plain Deployment keeps its old pods, too, and remains in that state"
	cases := []rolloutCase{
		badImage("image that does not exist", "nginx:nosuch"),
		badImage("image that crashes", "nginx:crash"),
		badImage("image that never answers", "nginx:mute"),
		invalidConfig(), missingConfigMap(), missingEnvironment(),
	}
	cases[0].controlServes = stays
	cases[1].quick = true
	if !local() { // the other two images exist in the local cluster only
		cases[1].controlServes, cases[2].controlServes = stays, stays
	}
	cases[4].controlServes, cases[5].controlServes = stays, stays
	return cases
}

// deadlineIsShort is a part of the spec of the managed application.
var deadlineIsShort = map[string]any{"rollout": map[string]any{"progressDeadlineSeconds": deadline}}

func badImage(name, image string) rolloutCase {
	return rolloutCase{
		name: name, kinds: bothKinds, needs: []string{"rollout.progressDeadlineSeconds"}, fields: deadlineIsShort,
		disturb: func(s *scene) error {
			return s.rollsBack(map[string]any{"image": image}, func(x target) error { return s.setImage(x, image) })
		},
	}
}

func invalidConfig() rolloutCase {
	c := configChanged()
	c.name = "invalid nginx configuration"
	c.needs = append(c.needs, "rollout.progressDeadlineSeconds")
	first := c.prepare
	c.prepare = func(s *scene) error {
		err := first(s)
		s.fields["rollout"] = deadlineIsShort["rollout"]
		return err
	}
	c.disturb = func(s *scene) error {
		bad := inline("nosuchdirective on;")
		return s.rollsBack(bad, func(x target) error { return s.setConfig(x, "nosuchdirective on;") })
	}
	return c
}

// missingConfigMap reads the configuration from a ConfigMap that does not exist,
// and missingEnvironment the environment.
func missingConfigMap() rolloutCase {
	c := configChanged()
	c.needs = append(c.needs, "config.configMapRef")
	return missing(c, map[string]any{"config": map[string]any{"inline": nil, "configMapRef": map[string]any{"name": absent}}},
		`[{"op":"replace","path":"/spec/template/spec/volumes/0/configMap/name","value":"`+absent+`"}]`)
}

func missingEnvironment() rolloutCase {
	c := rolloutCase{
		kinds: []kind{demoApplicationKind}, needs: []string{"envFrom", "rollout.restartOnConfigChange"},
		fields: map[string]any{"rollout": followsConfigMaps},
	}
	return missing(c, fromSettings(absent),
		`[{"op":"add","path":"/spec/template/spec/containers/0/envFrom","value":[{"configMapRef":{"name":"`+absent+`"}}]}]`)
}

const absent = "nosuch"

// missing makes the managed application and the plain Deployment refer to a
// ConfigMap that does not exist, with fields of the spec and a JSON patch,
// respectively. No pod may be affected.
func missing(c rolloutCase, fields map[string]any, patch string) rolloutCase {
	c.name = "ConfigMap that does not exist"
	c.disturb = func(s *scene) error {
		lowest := s.lowestReady()
		err := s.both(func(x target) error {
			if x.ours {
				return s.patch(fields)
			}
			_, err := s.kubectl("patch", x.object, "--type=json", "-p", patch)
			return err
		})
		return errors.Join(err, poll(s.ctx, "the condition to name what is missing", func() error {
			o, err := s.look()
			if err != nil {
				return err
			}
			ready := o.condition("Ready")
			if o.condition("Available").Status != "True" || ready.Status != "False" || ready.ObservedGeneration != o.Metadata.Generation {
				return fmt.Errorf("%+v", o.Status.Conditions)
			}
			if !strings.Contains(ready.Message+o.condition("Stalled").Message, absent) {
				return fmt.Errorf("the messages do not name it: %+v", o.Status.Conditions)
			}
			return nil
		}), lowest())
	}
	return c
}

// rollsBack makes the bad change, and waits until the operator has rolled it back.
func (s *scene) rollsBack(bad map[string]any, change func(target) error) error {
	lowest := s.lowestReady()
	start := time.Now()
	if err := s.both(change); err != nil {
		return err
	}
	err := poll(s.ctx, "the rollout to be rolled back", func() error {
		o, err := s.look()
		if err != nil {
			return err
		}
		ready, stalled := o.condition("Ready"), o.condition("Stalled")
		if ready.Status != "False" || ready.Reason != "RolledBack" || stalled.Status != "True" || stalled.Reason != "RolloutFailed" ||
			o.condition("Available").Status != "True" {
			return fmt.Errorf("conditions %+v", o.Status.Conditions)
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, lowest())
	}
	s.Logf("rolled back %s after the change", time.Since(start).Round(100*time.Millisecond))
	_, err = s.kubectl("rollout", "status", s.ours.deployment, "--timeout="+patience.String())
	return errors.Join(err, s.specIs(bad), lowest())
}

// specIs checks that the spec is as the user left it, and logs the conditions.
func (s *scene) specIs(want map[string]any) error {
	o, err := s.look()
	if err != nil {
		return err
	}
	for _, c := range o.Status.Conditions {
		s.Logf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	for field, value := range want {
		was, err := json.Marshal(value)
		if err != nil {
			return err
		}
		is, err := json.Marshal(o.Spec[field])
		if err != nil {
			return err
		}
		if string(is) != string(was) {
			return fmt.Errorf("spec.%s is %s, the user left %s", field, is, was)
		}
	}
	if said := o.condition("Ready").Message + o.condition("Stalled").Message; said == "" {
		return errors.New("the conditions say nothing")
	}
	return nil
}

type conditionOf struct {
	Type, Status, Reason, Message string
	ObservedGeneration            int64
}

// objectOf is the live object of the managed application.
type objectOf struct {
	Metadata struct{ Generation int64 }
	Spec     map[string]any
	Status   struct {
		Conditions  []conditionOf
		LastActions []any
		Image       string
	}
}

func (o objectOf) condition(kind string) conditionOf {
	for _, c := range o.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return conditionOf{}
}

func (s *scene) look() (objectOf, error) {
	return s.reader.get(s.ctx, s.ns, s.ours.object)
}

// lowestReady watches how many replicas of the managed application are ready, in
// its status and in that of the Deployment. The returned function stops that, and
// returns an error if there were fewer than three at any time.
func (s *scene) lowestReady() func() error {
	ctx, cancel := context.WithCancel(s.ctx)
	objects := []string{s.ours.object, s.ours.deployment}
	lowest := make(chan error, len(objects))
	for _, object := range objects {
		go func() { lowest <- s.watchReady(ctx, object) }()
	}
	return func() error {
		cancel()
		var all error
		for range objects {
			all = errors.Join(all, <-lowest)
		}
		return all
	}
}

func (s *scene) watchReady(ctx context.Context, object string) error {
	const format = `jsonpath={.status.readyReplicas}{"\n"}`
	cmd := exec.CommandContext(ctx, "kubectl", "-n", s.ns, "get", object, "--watch", "-o", format)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var fewer error
	seen := 0
	for lines := bufio.NewScanner(out); lines.Scan(); seen++ {
		if n := lines.Text(); n != "3" {
			fewer = fmt.Errorf("%s had %q ready replicas of 3", object, n)
		}
	}
	_ = cmd.Wait() // it was stopped
	if seen == 0 {
		return fmt.Errorf("%s was not seen", object)
	}
	return fewer
}
