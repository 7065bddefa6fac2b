package judge

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Metrics is the Prometheus counter of the requests to a pod, with the status as a label.
type Metrics struct {
	Port int32  `json:"port"`
	Path string `json:"path,omitempty"`  // "" for /metrics
	Name string `json:"name,omitempty"`  // "" for http_requests_total
	Code string `json:"label,omitempty"` // the label; "" for the first of codes
	// Probes is the number of requests of the kubelet per minute, which an application
	// counts too.
	Probes int64 `json:"probes,omitempty"`
}

var codes = []string{"code", "status", "status_code"}

// Scraper reads the counts from the metrics of the application.
type Scraper struct {
	client http.Client
	// last is what was read last, and before what the application counted before its
	// container was restarted.
	last, before counts
}

type counts struct{ requests, failed int64 }

// NewScraper returns a Scraper whose requests take no longer than limit.
func NewScraper(limit time.Duration) *Scraper {
	return &Scraper{client: http.Client{
		Timeout:       limit,
		Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// total implements Source.
func (s *Scraper) total(ctx context.Context, settings *Settings) (requests, failed int64, err error) {
	m := settings.Metrics
	if m == nil {
		return 0, 0, nil // it is not known yet
	}
	url := fmt.Sprintf("http://localhost:%d%s", m.Port, cmp.Or(m.Path, "/metrics"))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, 0, fmt.Errorf("the path of the metrics: %w", err)
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	req.Header.Set("User-Agent", "platform-operator")
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, 0, err //nolint:wrapcheck // it names the address
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, 0, fmt.Errorf("%s answers %s", url, resp.Status)
	}
	now, err := m.read(resp.Body)
	if err != nil {
		return 0, 0, fmt.Errorf("%s %w", url, err)
	}
	if now.requests < s.last.requests || now.failed < s.last.failed {
		s.before = counts{s.before.requests + s.last.requests, s.before.failed + s.last.failed}
	}
	s.last = now
	return s.before.requests + now.requests, s.before.failed + now.failed, nil
}

// read returns the sum of the samples in the text format of Prometheus.
func (m Metrics) read(text io.Reader) (counts, error) {
	name := cmp.Or(m.Name, "http_requests_total")
	var c counts
	var found, counted bool
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest == "" || !strings.ContainsRune("{ ", rune(rest[0])) {
			continue
		}
		found = true
		labels, rest := labelsOf(rest)
		value, err := strconv.ParseFloat(strings.SplitN(strings.TrimSpace(rest), " ", 2)[0], 64)
		code := m.codeOf(labels)
		if err != nil || code == "" {
			continue
		}
		counted = true
		c.requests += int64(value)
		if code[0] == '5' {
			c.failed += int64(value)
		}
	}
	switch {
	case lines.Err() != nil:
		return counts{}, fmt.Errorf("cannot be read: %w", lines.Err())
	case !found:
		return counts{}, fmt.Errorf("has no counter %s", name)
	case !counted:
		return counts{}, fmt.Errorf("has %s without a status in the label %s", name, cmp.Or(m.Code, strings.Join(codes, ", ")))
	}
	return c, nil
}

// codeOf returns the status in the labels, such as 200 or 5xx, or "".
func (m Metrics) codeOf(labels map[string]string) string {
	names := codes
	if m.Code != "" {
		names = []string{m.Code}
	}
	i := slices.IndexFunc(names, func(name string) bool { return isStatus(labels[name]) })
	if i < 0 {
		return ""
	}
	return labels[names[i]]
}

func isStatus(code string) bool { return len(code) == len("200") && '1' <= code[0] && code[0] <= '5' }

// labelsOf returns the labels at the beginning of a text, and what follows.
func labelsOf(text string) (labels map[string]string, rest string) {
	rest, ok := strings.CutPrefix(text, "{")
	if !ok {
		return nil, text
	}
	labels = map[string]string{}
	for {
		name, more, ok := strings.Cut(rest, "=")
		value, err := strconv.QuotedPrefix(more)
		if !ok || err != nil {
			break
		}
		labels[strings.TrimSpace(name)] = strings.Trim(value, `"`) // a status contains no escapes
		rest = strings.TrimPrefix(strings.TrimLeft(more[len(value):], " "), ",")
	}
	return labels, strings.TrimPrefix(strings.TrimSpace(rest), "}")
}
