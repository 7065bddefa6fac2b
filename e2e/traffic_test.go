//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/platform-operator/platform-operator/e2e/load"
	"github.com/platform-operator/platform-operator/e2e/traffic"
)

const (
	// trafficLimit is how long a request may take. A busy machine may need seconds.
	trafficLimit = 15 * time.Second
	// trafficCalm is how long nothing happens after an event.
	trafficCalm = 8 * time.Second
)

// trafficObjects are the objects of the campaign, each as it is known to kubectl.
var trafficObjects = []string{"webserver/web", "webserver/tls", "demoapp/app", "memcached/cache", "immortal/immortal"}

// trafficConfigs are the configurations of the WebServers, as parts of JSON. A download takes
// 20 seconds, and the liveness probe fails if there is a file.
var trafficConfigs = func() map[string]string {
	const both = `location = /slow.txt { limit_rate 2k; }\nlocation = /live { access_log off; if (-f /tmp/sick) { return 500; } return 204; }\n`
	return map[string]string{"webserver/web": both, "webserver/tls": `http2 on;\n` + both}
}()

// campaignTraffic is the campaign as it runs.
type campaignTraffic struct {
	*testing.T
	ctx    context.Context
	ns     string
	reader reader
	judge  *traffic.Judge
	loads  []*load.Load
	on     map[string]bool // what is changed and changed back
	keys   [2][]byte       // certificates of tls, each with its key
}

// TestCampaignTraffic lets things happen to objects that clients use, one after the other.
func TestCampaignTraffic(t *testing.T) {
	campaign(t, "campaign-traffic")
	duration, err := time.ParseDuration(os.Getenv("TRAFFIC_TIME"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(os.Getenv("TRAFFIC_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64N(1_000_000) //nolint:gosec // a campaign is not a secret
	}
	t.Logf("TRAFFIC_SEED=%d", seed)
	c := &campaignTraffic{T: t, ctx: t.Context(), ns: namespace(t), reader: newReader(t), on: map[string]bool{}}
	c.prepare()
	c.judge = traffic.NewJudge(trafficCauses(), time.Now())
	end := time.Now().Add(duration)
	c.clients(duration)
	go c.compare()
	c.sleep(trafficCalm)
	chance := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a campaign is not a secret
	for time.Now().Before(end) {
		events := c.events()
		chance.Shuffle(len(events), func(a, b int) { events[a], events[b] = events[b], events[a] })
		for _, e := range events {
			if time.Now().Before(end) && selected(e) {
				c.happen(e)
			}
		}
	}
	c.judge.End(time.Now())
	for _, l := range c.loads {
		l.End()
	}
	for _, l := range c.loads {
		l.Wait()
	}
	report, defects := c.judge.Defects()
	fmt.Println(report)
	if defects > 0 {
		t.Errorf("%d defects", defects)
	}
}

// selected reports whether the event is one of TRAFFIC_EVENTS, such as "web image,tls restart".
func selected(e trafficEvent) bool {
	only := os.Getenv("TRAFFIC_EVENTS")
	_, object, _ := strings.Cut(e.object, "/")
	return only == "" || slices.Contains(strings.Split(only, ","), strings.TrimSpace(object+" "+e.name))
}

// happen lets an event happen, and waits until the objects have settled.
func (c *campaignTraffic) happen(e trafficEvent) {
	_, object, _ := strings.Cut(e.object, "/")
	event := c.judge.Begin(e.name, object, time.Now())
	err := e.happen()
	for _, o := range trafficObjects {
		if err == nil && (e.object == "" || o == e.object) {
			err = c.ready(o)
		}
	}
	if err != nil {
		event.Err = err.Error()
	}
	c.Logf("%s %s: %s %v", time.Now().Format(time.TimeOnly), strings.TrimSpace(object+" "+e.name), time.Since(event.Start).Round(time.Second), err)
	c.sleep(trafficCalm)
}

func (c *campaignTraffic) sleep(d time.Duration) {
	select {
	case <-c.ctx.Done():
	case <-time.After(d):
	}
}

func (c *campaignTraffic) kubectl(args ...string) (string, error) {
	out, err := run(c.ctx, "", "kubectl", append([]string{"-n", c.ns}, args...)...)
	return strings.TrimSpace(out), err
}

func (c *campaignTraffic) do(args ...string) error { _, err := c.kubectl(args...); return err }

func (c *campaignTraffic) apply(yaml string) error {
	_, err := run(c.ctx, yaml, "kubectl", "-n", c.ns, "apply", "-f", "-")
	return err
}

func (c *campaignTraffic) patch(object, spec string) error {
	return c.do("patch", object, "--type=merge", "-p", `{"spec":`+spec+`}`)
}

func (c *campaignTraffic) ready(object string) error {
	return c.do("wait", "--for=condition=Ready", object, "--timeout=150s")
}

// flip patches one of two values that take turns.
func (c *campaignTraffic) flip(object, field, first, second string) error {
	if c.on[object+field] = !c.on[object+field]; c.on[object+field] {
		first = second
	}
	return c.patch(object, fmt.Sprintf(field, first))
}

// prepare creates the objects, and waits until each is Ready.
func (c *campaignTraffic) prepare() {
	for i, name := range []string{"first", "second"} {
		key := privateKey(c.T)
		c.keys[i] = append(certificate(c.T, name, key), inPEM(c.T, key)...)
	}
	slow, _ := json.Marshal(strings.Repeat("x", 99) + "\n" + strings.Repeat("y", 40000)) // 20 s at 2 kB/s
	const live = `probes: {liveness: {httpGet: {path: /live, port: http}, periodSeconds: 2, failureThreshold: 3, timeoutSeconds: 2}}, rollout: {progressDeadlineSeconds: 60}`
	err := errors.Join(c.certify(0), c.apply(webServerKind.manifest("web",
		`{image: "nginx:1.26", replicas: 3, service: {type: ClusterIP}, content: {files: {index.html: served, slow.txt: `+string(slow)+`}}, config: {inline: "`+trafficConfigs["webserver/web"]+`"}, `+live+`}`)+
		webServerKind.manifest("tls",
			`{image: "nginx:1.30", replicas: 2, service: {type: ClusterIP}, tls: {secretRef: {name: tls}}, config: {inline: "`+trafficConfigs["webserver/tls"]+`"}, `+live+`}`)+
		demoApplicationKind.manifest("app",
			`{image: "traffic-app:1", replica: 3, args: ["-listen=:8080"], ports: [{port: 80, targetPort: 8080}], rollout: {progressDeadlineSeconds: 60}}`)+
		"---\napiVersion: cache.example.com/v1alpha1\nkind: Memcached\nmetadata: {name: cache}\nspec: {size: 3, image: \"memcached:1.6.38\"}\n"+
		immortalKind.manifest("immortal", `{image: "traffic-app:1", probes: {readiness: {tcpSocket: {port: 8080}}}}`)+
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: immortal}\nspec: {selector: {immortalcontainer_cr: immortal}, ports: [{port: 80, targetPort: 8080}]}\n"))
	for _, o := range trafficObjects {
		err = errors.Join(err, c.ready(o))
	}
	if err != nil {
		c.Fatal(err)
	}
}

// certify makes tls serve one of the certificates.
func (c *campaignTraffic) certify(i int) error {
	data, _ := json.Marshal(string(c.keys[i]))
	return c.apply(fmt.Sprintf("apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {name: tls}\nstringData: {tls.crt: %s, tls.key: %s}\n", data, data))
}

// clients starts all loads.
func (c *campaignTraffic) clients(duration time.Duration) {
	host := func(service string) string {
		ip, err := c.kubectl("get", "service", service, "-o", "jsonpath={.spec.clusterIP}")
		if err != nil {
			c.Fatal(err)
		}
		return ip
	}
	web, secure, app, immortal := host("web-service"), host("tls-service"), host("app"), host("immortal")
	accept := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // certificates of the test
	start := func(object, name string, config load.Config) {
		// The campaign ends with an event, and no event takes longer than this.
		config.Most = config.Rate * int((duration + 20*time.Minute).Seconds())
		config.TLS, config.Clients, config.Observe = accept, 6, c.judge.Observe(traffic.Client{Object: object, Name: name, Probe: name == "new" || name == "memcached"})
		if config.Limit == 0 {
			config.Limit = trafficLimit
		}
		l, err := load.Start(c.ctx, config)
		if err != nil {
			c.Fatal(err)
		}
		c.loads = append(c.loads, l)
	}
	const long = 45 * time.Second
	start("web", "new", load.Config{URL: "http://" + web, Rate: 10})
	start("web", "kept", load.Config{URL: "http://" + web, Rate: 10, KeepAlive: true})
	start("web", "download", load.Config{URL: "http://" + web + "/slow.txt", Rate: 1, Limit: long})
	start("tls", "new", load.Config{URL: "https://" + secure, Rate: 3})
	start("tls", "kept", load.Config{URL: "https://" + secure, Rate: 5, KeepAlive: true})
	start("tls", "http2", load.Config{Ask: http2("https://"+secure, accept), Rate: 10})
	start("app", "new", load.Config{URL: "http://" + app, Rate: 10})
	start("app", "kept", load.Config{URL: "http://" + app, Rate: 10, KeepAlive: true})
	start("app", "download", load.Config{URL: "http://" + app + "/slow", Rate: 1, Limit: long})
	start("app", "upgraded", load.Config{Ask: upgraded(app + ":80"), Rate: 1, Limit: long})
	start("immortal", "new", load.Config{URL: "http://" + immortal, Rate: 3})
	start("cache", "memcached", load.Config{Ask: c.memcached(), Rate: 10})
}

// http2 returns a client of several connections. Its library sends a request again if the
// server says that it has not processed it, as HTTP/2 provides; and it overlooks a header
// that makes other clients give the response up.
func http2(url string, accept *tls.Config) func(context.Context, int) error {
	var clients []*http.Client
	for range 6 {
		protocols := &http.Protocols{}
		protocols.SetHTTP2(true)
		clients = append(clients, &http.Client{Transport: &http.Transport{Protocols: protocols, TLSClientConfig: accept.Clone()}})
	}
	return func(ctx context.Context, n int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		client := clients[n%len(clients)]
		// Now and then another connection, or all would be those of pods that did not end.
		if n/len(clients)%15 == 0 {
			client.CloseIdleConnections()
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if _, err = io.Copy(io.Discard, res.Body); err != nil {
			return err
		}
		if header := res.Header.Get("Connection"); header != "" {
			return fmt.Errorf("malformed response (RFC 9113, 8.2.2): Connection: %s in HTTP/2", header)
		}
		if res.StatusCode != http.StatusOK {
			return errors.New(res.Status)
		}
		return nil
	}
}

// upgraded returns a client that keeps an upgraded connection for ten seconds, or until
// the server says goodbye.
func upgraded(address string) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		deadline, _ := ctx.Deadline()
		_ = conn.SetDeadline(deadline)
		if _, err := io.WriteString(conn, "GET /upgrade HTTP/1.1\r\nHost: app\r\nConnection: Upgrade\r\nUpgrade: tick\r\n\r\n"); err != nil {
			return err
		}
		lines, since := bufio.NewReader(conn), time.Now()
		for time.Since(since) < 10*time.Second {
			line, err := lines.ReadString('\n')
			if err != nil {
				return err
			}
			if line == "bye\n" {
				return nil
			}
		}
		return nil
	}
}

// memcached returns a client that distributes keys over the addresses of the Service, and
// keeps a connection to each.
func (c *campaignTraffic) memcached() func(context.Context, int) error {
	var mu sync.Mutex
	var addresses []string
	var read time.Time
	idle := map[string]net.Conn{}
	pick := func(ctx context.Context, n int) (string, net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(read) > time.Second {
			list, err := c.reader.objects.Resource(schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}).
				Namespace(c.ns).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=cache"})
			if err != nil {
				return "", nil, err
			}
			addresses, read = nil, time.Now()
			for _, slice := range list.Items {
				endpoints, _, _ := unstructured.NestedSlice(slice.Object, "endpoints")
				for _, e := range endpoints {
					of, _, _ := unstructured.NestedStringSlice(e.(map[string]any), "addresses")
					addresses = append(addresses, of...)
				}
			}
		}
		if len(addresses) == 0 {
			return "", nil, errors.New("the Service has no addresses")
		}
		address := addresses[n%len(addresses)]
		conn := idle[address]
		delete(idle, address)
		return address, conn, nil
	}
	return func(ctx context.Context, n int) error {
		address, conn, err := pick(ctx, n)
		if err == nil && conn == nil {
			conn, err = (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(address, "11211"))
		}
		if err != nil {
			return err
		}
		deadline, _ := ctx.Deadline()
		_ = conn.SetDeadline(deadline)
		if err := exchange(conn); err != nil {
			return errors.Join(err, conn.Close())
		}
		mu.Lock()
		defer mu.Unlock()
		if other := idle[address]; other != nil {
			_ = other.Close()
		}
		idle[address] = conn
		return nil
	}
}

// exchange stores a value and reads it again.
func exchange(conn net.Conn) error {
	const value = "VALUE k 0 1\r\nv\r\nEND\r\n"
	if _, err := io.WriteString(conn, "set k 0 0 1\r\nv\r\nget k\r\n"); err != nil {
		return err
	}
	answer := make([]byte, len("STORED\r\n"+value))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if string(answer) != "STORED\r\n"+value {
		return fmt.Errorf("memcached answers %q", answer)
	}
	return nil
}

// compare compares the statuses with the requests until the campaign ends.
func (c *campaignTraffic) compare() {
	for c.ctx.Err() == nil {
		for _, name := range trafficObjects {
			o, err := c.reader.get(c.ctx, c.ns, name)
			if err != nil {
				continue // it is deleted, or the API server is busy
			}
			_, object, _ := strings.Cut(name, "/")
			c.judge.Compare(object, o.Status.Image, o.condition("Available").Status == "True", o.condition("Ready").Status == "True", time.Now())
		}
		c.sleep(time.Second)
	}
}
