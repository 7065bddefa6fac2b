//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/platform-operator/platform-operator/e2e/load"
	"github.com/platform-operator/platform-operator/e2e/traffic"
)

// trafficEvent is something that happens to an object, or to all. It returns when what it
// waits for has happened; then the objects become Ready.
type trafficEvent struct {
	name, object string
	happen       func() error
}

// trafficCauses are the causes of failed requests that are documented. All others are defects.
func trafficCauses() []traffic.Cause {
	const page = "docs/contributing/traffic.md"
	replaced := []string{
		"image", "resources", "memory", "restart", "scale", "bad image", "node drained", "pod deleted", "container killed", "node lost",
	}
	// Not an answer that is wrong.
	dropped := []load.Class{load.Connect, load.ConnectTimeout, load.Handshake, load.Reset, load.Retried, load.Timeout}
	return []traffic.Cause{
		{
			Events: []string{"node lost"}, Classes: dropped, Within: 3 * time.Minute, Unseen: 75 * time.Second,
			Why: "Kubernetes notices after about 40 s that a node is lost, and some time after its start which pods run", Page: page,
		},
		{
			// The ports of a client come round after a minute or two.
			Events: []string{"node lost"}, Classes: []load.Class{load.Connect}, Says: "no route to host", Within: 5 * time.Minute,
			Why: "the packet filter sends a connection from a port that was used during the loss to a pod that no longer exists", Page: page,
		},
		{
			Events: []string{"container killed"}, Classes: dropped, Within: 10 * time.Second,
			Why: "a container that exits drops its requests, and is reached until the kubelet notices", Page: page,
		},
		{
			Events: []string{"liveness failure"}, Classes: dropped, Within: 45 * time.Second,
			Why: "a container that is restarted is reached until the kubelet notices that it has exited", Page: page,
		},
		{
			Events: []string{"key renewed"}, Classes: []load.Class{load.Handshake},
			Why: "handshakes while a key is replaced", Page: "docs/api/webserver.md",
		},
		{
			Objects: []string{"cache"}, Events: replaced, Unseen: 5 * time.Minute,
			Why: "a node of a cache does not keep serving when it is replaced", Page: "docs/api/common.md",
		},
		{
			Objects: []string{"immortal"}, Events: replaced,
			Why: "there is only one pod", Page: "docs/api/immortalcontainer.md",
		},
	}
}

func (c *campaignTraffic) events() []trafficEvent {
	const web, secure, app, cache, immortal = "webserver/web", "webserver/tls", "demoapp/app", "memcached/cache", "immortal/immortal"
	var events []trafficEvent
	add := func(object, name string, happen func() error) {
		events = append(events, trafficEvent{name, object, happen})
	}
	restart := func(object string) func() error {
		return func() error {
			return c.patch(object, `{"rollout":{"restartedAt":"`+time.Now().UTC().Format(time.RFC3339)+`"}}`)
		}
	}
	flip := func(object, field, first, second string) func() error {
		return func() error { return c.flip(object, field, first, second) }
	}
	add(web, "image", flip(web, `{"image":"nginx:%s"}`, "1.26", "1.30"))
	add(secure, "image", flip(secure, `{"image":"nginx:%s"}`, "1.30", "1.26"))
	for _, object := range []string{web, secure} {
		add(object, "config", flip(object, `{"config":{"inline":"# %s\n`+trafficConfigs[object]+`"}}`, "first", "second"))
		add(object, "bad config", c.fails(object, c.config(object, "retrun 200;\\n"), c.config(object, "")))
		add(object, "restart", restart(object))
		add(object, "liveness failure", func() error { return c.sicken(object) })
	}
	add(secure, "http3", flip(secure, `{"tls":{"http3":%s}}`, "true", "false"))
	add(web, "content", flip(web, `{"content":{"files":{"index.html":"%s"}}}`, "served", "served again"))
	add(web, "resources", flip(web, `{"resources":{"requests":{"cpu":"%s"}}}`, "5m", "6m"))
	add(web, "container port", flip(web, `{"containerPort":%s}`, "80", "8081"))
	const sidecar = `{"name":"helper","image":"traffic-app:1","args":["-listen=:9090"],"restartPolicy":"Always"}`
	add(web, "sidecar", flip(web, `{"pod":{"initContainers":[%s]}}`, "", sidecar))
	add(web, "bad sidecar", c.fails(web, func() error {
		return c.patch(web, `{"pod":{"initContainers":[`+strings.Replace(sidecar, "traffic-app:1", "traffic-app:missing", 1)+`]}}`)
	}, func() error { return c.patch(web, `{"pod":null}`) }))
	add(web, "bad image", c.fails(web, func() error { return c.patch(web, `{"image":"nginx:crash"}`) },
		func() error { return c.patch(web, `{"image":"nginx:1.30"}`) }))
	add(web, "scale", c.scale(web, 5, 2, 3))
	add(web, "pin", c.pin(web, `{"image":"nginx:1.27.4"}`, func() string { return `{"image":"nginx:1.30"}` }))
	add(web, "pod deleted", c.onPod(web, "delete", "pod"))
	add(web, "container killed", c.onPod(web, "exec", "", "--", "nginx", "-s", "stop"))
	add(secure, "key renewed", func() error {
		c.on["key"] = !c.on["key"]
		err := c.certify(map[bool]int{true: 1}[c.on["key"]])
		c.sleep(90 * time.Second) // the kubelet updates the volume
		return err
	})
	add(secure, "orphaned and applied again", func() error { return c.orphan(secure) })
	add(app, "image", flip(app, `{"image":"traffic-app:%s"}`, "1", "2"))
	const port = `{"args":["-listen=:%[1]s"],"ports":[{"port":80,"targetPort":%[1]s}]}`
	mended := func() string {
		c.on[app+port] = false
		return fmt.Sprintf(port, "8080")
	}
	add(app, "targetPort", flip(app, port, "8080", "8081"))
	add(app, "targetPort and pin", c.pin(app, fmt.Sprintf(port, "8082"), mended))
	add(app, "targetPort that is wrong", c.fails(app, func() error { return c.patch(app, `{"ports":[{"port":80,"targetPort":9999}]}`) },
		func() error { return c.patch(app, mended()) }))
	add(app, "restart", restart(app))
	add(app, "scale", c.scale(app, 5, 2, 3))
	add(app, "container killed", func() error {
		ip, err := c.podOf(app, ".status.podIP")
		if err == nil {
			_, _ = page(c.ctx, "http://"+ip+":"+map[bool]string{false: "8080", true: "8081"}[c.on[app+port]]+"/exit")
			c.sleep(3 * time.Second)
		}
		return err
	})
	add(cache, "image", flip(cache, `{"image":"memcached:%s"}`, "1.6.38", "1.6.45"))
	add(cache, "memory", flip(cache, `{"memory":{"size":"%s"}}`, "64Mi", "32Mi"))
	add(cache, "scale", c.scale(cache, 4, 3))
	add(immortal, "image", flip(immortal, `{"image":"traffic-app:%s"}`, "1", "2"))
	add(immortal, "pod deleted", c.onPod(immortal, "delete", "pod"))
	for _, node := range []string{"node1", "node2"} {
		add("", "node drained", func() error {
			err := c.do("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=3m")
			return errors.Join(err, c.do("uncordon", node))
		})
	}
	add("", "operator killed", func() error {
		_, err := run(c.ctx, "", "kubectl", "-n", operatorNamespace, "delete", "pods", "-l", "app.kubernetes.io/name="+operatorName, "--grace-period=0", "--force")
		// Nothing can be changed until a webhook answers again.
		return errors.Join(err, poll(c.ctx, "admission", restart(web)))
	})
	add("", "node lost", func() error {
		_, err := run(c.ctx, "", "../bin/cluster", "kill", "node2")
		c.sleep(90 * time.Second)
		_, err2 := run(c.ctx, "", "../bin/cluster", "start", "node2")
		return errors.Join(err, err2)
	})
	return events
}

// fails makes a change that is rolled back, and mends it.
func (c *campaignTraffic) fails(object string, change, mend func() error) func() error {
	return func() error {
		err := change()
		if err == nil {
			err = c.do("wait", `--for=jsonpath={.status.conditions[?(@.type=="Ready")].reason}=RolledBack`, object, "--timeout=150s")
		}
		c.sleep(trafficCalm)
		return errors.Join(err, mend())
	}
}

// config puts a line before the configuration of a WebServer.
func (c *campaignTraffic) config(object, line string) func() error {
	return func() error { return c.patch(object, `{"config":{"inline":"`+line+trafficConfigs[object]+`"}}`) }
}

// pin makes a change, pins the revision before it, and undoes both.
func (c *campaignTraffic) pin(object, change string, undo func() string) func() error {
	return func() error {
		before, err := c.kubectl("get", object, "-o", "jsonpath={.status.revisions.current}")
		err = errors.Join(err, c.patch(object, change), c.ready(object))
		c.sleep(trafficCalm)
		err = errors.Join(err, c.patch(object, `{"rollout":{"pinnedRevision":`+before+`}}`), c.ready(object))
		c.sleep(trafficCalm)
		return errors.Join(err, c.patch(object, undo()), c.patch(object, `{"rollout":{"pinnedRevision":null}}`))
	}
}

func (c *campaignTraffic) scale(object string, sizes ...int) func() error {
	return func() error {
		for _, n := range sizes {
			if err := errors.Join(c.do("scale", object, fmt.Sprintf("--replicas=%d", n)), c.ready(object)); err != nil {
				return err
			}
			c.sleep(trafficCalm)
		}
		return nil
	}
}

// podOf returns a field of a pod of an object, and not of one that is being deleted: such a
// pod serves for some more seconds, and then what an event waits for never happens.
func (c *campaignTraffic) podOf(object, field string) (string, error) {
	resource, name, _ := strings.Cut(object, "/")
	label := map[string]string{"webserver": "webserver_cr", "demoapp": "demoapplication_cr", "immortal": "immortalcontainer_cr", "memcached": "memcached_cr"}[resource]
	found, err := c.kubectl("get", "pods", "-l", label+"="+name, "--field-selector=status.phase=Running", "-o",
		"go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{"+field+"}} {{end}}{{end}}")
	if err == nil && strings.TrimSpace(found) == "" {
		return "", fmt.Errorf("%s has no running pod", object)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(found), " ")
	return first, err
}

// onPod runs kubectl on a pod of an object. The name of the pod replaces "", or is added at the end.
func (c *campaignTraffic) onPod(object string, args ...string) func() error {
	return func() error {
		pod, err := c.podOf(object, ".metadata.name")
		if err != nil {
			return err
		}
		named := false
		var with []string
		for _, a := range args {
			if a == "" {
				a, named = pod, true
			}
			with = append(with, a)
		}
		if !named {
			with = append(with, pod)
		}
		err = c.do(with...)
		c.sleep(3 * time.Second)
		return err
	}
}

// sicken makes the liveness probe of a pod fail until its container is restarted.
func (c *campaignTraffic) sicken(object string) error {
	pod, err := c.podOf(object, ".metadata.name")
	if err != nil {
		return err
	}
	restarts := func() (string, error) {
		return c.kubectl("get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
	}
	before, err := restarts()
	if err := errors.Join(err, c.do("exec", pod, "--", "touch", "/tmp/sick")); err != nil {
		return err
	}
	if err := poll(c.ctx, "a restart", func() error {
		now, err := restarts()
		if err == nil && now == before {
			err = errors.New("it is not restarted")
		}
		return err
	}); err != nil {
		return err
	}
	err = c.do("exec", pod, "--", "rm", "/tmp/sick")
	c.sleep(40 * time.Second) // a pod that goes on as if it were ending is found then
	return err
}

// orphan deletes an object without its children, and applies it again, as a restore does.
func (c *campaignTraffic) orphan(object string) error {
	resource, name, _ := strings.Cut(object, "/")
	gvr, err := c.reader.resources.ResourceFor(schema.GroupVersionResource{Resource: resource})
	if err != nil {
		return err
	}
	old, err := c.reader.objects.Resource(gvr).Namespace(c.ns).Get(c.ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	fresh := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": old.GetAPIVersion(), "kind": old.GetKind(), "metadata": map[string]any{"name": name}, "spec": old.Object["spec"],
	}}
	raw, err := fresh.MarshalJSON()
	if err != nil {
		return err
	}
	return errors.Join(c.do("delete", object, "--cascade=orphan"), c.apply(string(raw)))
}
