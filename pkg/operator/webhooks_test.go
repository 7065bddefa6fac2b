package operator

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// hooked starts a webhook server whose only hook returns the length of the body
// after it was released.
func hooked(t *testing.T) (url string, began <-chan int, release chan<- struct{}) {
	t.Helper()
	begin, end := make(chan int), make(chan struct{})
	s := newWebhookServer(webhook.Options{Port: -1, WebhookMux: http.NewServeMux()})
	s.Register("/hook", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		begin <- len(body)
		<-end
	}))
	listening := httptest.NewServer(s.WebhookMux())
	t.Cleanup(listening.Close)
	return listening.URL + "/hook", begin, end
}

// post sends a request of a size and returns the answer. chunked does not announce
// the size.
func post(t *testing.T, url string, size int, chunked bool) (code int, header http.Header, s metav1.Status) {
	t.Helper()
	var body io.Reader = strings.NewReader(strings.Repeat("x", size))
	if chunked {
		body = io.MultiReader(body)
	}
	return send(t, url, body)
}

func send(t *testing.T, url string, body io.Reader) (code int, header http.Header, s metav1.Status) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Error(err)
		return 0, nil, s
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, nil, s
	}
	defer func() { _ = answer.Body.Close() }()
	_ = json.NewDecoder(answer.Body).Decode(&s) // there is none if the hook answered
	return answer.StatusCode, answer.Header, s
}

func TestWebhookServer_RefusesLargeRequests(t *testing.T) {
	url, began, release := hooked(t)
	go func() {
		for range began {
			release <- struct{}{}
		}
	}()
	for name, tc := range map[string]struct {
		size    int
		chunked bool
		want    int
	}{
		"usual":                       {2 << 10, false, http.StatusOK},
		"as large as it may be":       {maxBody, false, http.StatusOK},
		"larger":                      {maxBody + 1, false, http.StatusRequestEntityTooLarge},
		"as large, of unknown length": {maxBody, true, http.StatusOK},
		"larger, of unknown length":   {maxBody + 1, true, http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, s := post(t, url, tc.size, tc.chunked)
			if code != tc.want {
				t.Errorf("got %d, want %d", code, tc.want)
			}
			if tc.want != http.StatusOK && (int(s.Code) != tc.want || !strings.Contains(s.Message, "must have at most 3584 KiB")) {
				t.Errorf("the answer is %+v", s)
			}
		})
	}
}

func TestWebhookServer_LimitsTheCostAtATime(t *testing.T) {
	url, began, release := hooked(t)
	done := make(chan struct{}, 8)
	start := func(size int) {
		go func() {
			if code, _, _ := post(t, url, size, false); code != http.StatusOK {
				t.Errorf("a request that was accepted is answered with %d", code)
			}
			done <- struct{}{}
		}()
		if got := <-began; got != size {
			t.Errorf("the hook received %d of %d bytes", got, size)
		}
	}
	atATime := maxCost / (CostPerByte*maxBody - ordinary)
	for range atATime {
		start(maxBody)
	}
	code, header, s := post(t, url, maxBody, false)
	if code != http.StatusTooManyRequests || header.Get("Retry-After") != "1" || s.Reason != metav1.StatusReasonTooManyRequests {
		t.Errorf("one more large one is answered with %d, %+v", code, s)
	}
	start(ordinary / CostPerByte) // is not held up
	for range atATime + 1 {
		release <- struct{}{}
		<-done
	}
	start(maxBody)
	release <- struct{}{}
	<-done
}

// A million empty elements have 3 MB, and need some hundred when they are decoded.
func TestWebhookServer_RefusesTooManyValues(t *testing.T) {
	url, began, release := hooked(t)
	go func() {
		for range began {
			release <- struct{}{}
		}
	}()
	for name, tc := range map[string]struct {
		body string
		want int
	}{
		"as many as there may be": {"[0" + strings.Repeat(",0", maxValues-1) + "]", http.StatusOK},
		"one more":                {"[0" + strings.Repeat(",0", maxValues) + "]", http.StatusRequestEntityTooLarge},
		"objects":                 {"[{}" + strings.Repeat(",{}", maxValues/2) + "]", http.StatusRequestEntityTooLarge},
		"a text":                  {`["` + strings.Repeat(`\",{[`, maxValues) + `"]`, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, s := send(t, url, strings.NewReader(tc.body))
			if code != tc.want {
				t.Errorf("got %d, want %d", code, tc.want)
			}
			if tc.want != http.StatusOK && !strings.Contains(s.Message, "must have at most 100000 JSON values") {
				t.Errorf("the answer is %+v", s)
			}
		})
	}
}
