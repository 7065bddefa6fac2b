package webhookserver

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/pkg/httplimit"
)

// hooked starts a webhook server whose only hook returns the length of the body
// after it was released.
func hooked(t *testing.T) (url string, began <-chan int, release chan<- struct{}) {
	t.Helper()
	begin, end := make(chan int), make(chan struct{})
	s := New("", nil)
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
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, nil, s
	}
	defer func() { _ = answer.Body.Close() }()
	_ = json.NewDecoder(answer.Body).Decode(&s) // there is none if the hook answered
	return answer.StatusCode, answer.Header, s
}

// TestWebhookServer_EndsKeptConnections sends requests on a kept connection while the server
// ends.
func TestWebhookServer_EndsKeptConnections(t *testing.T) {
	t.Parallel()
	url, end := serveTLS(t)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // of the test
	closes := func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("got %s %v", answer.Status, err)
		}
		return answer.Close
	}
	if closes() {
		t.Error("no connection is kept")
	}
	end()
	for !closes() {
		time.Sleep(time.Millisecond)
	}
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

// calls are a webhook server without a network. Its hook takes as long as a request
// asks for.
func calls(t *testing.T) (s *limitedServer, call func(body io.Reader, length int64, took time.Duration) (int, http.Header)) {
	t.Helper()
	s = New("", nil).(*limitedServer)
	s.Register("/hook", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		took, err := time.ParseDuration(r.Header.Get("Takes"))
		if err != nil {
			t.Error(err)
		}
		time.Sleep(took)
	}))
	return s, func(body io.Reader, length int64, took time.Duration) (int, http.Header) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hook", body)
		r.ContentLength = length
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Takes", took.String())
		w := httptest.NewRecorder()
		s.WebhookMux().ServeHTTP(w, r)
		return w.Code, w.Header()
	}
}

// text returns a request of a size.
func text(size int) io.Reader { return strings.NewReader(strings.Repeat("x", size)) }

func TestWebhookServer_LimitsTheCostAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, call := calls(t)
		atATime := maxCost / (CostPerByte*maxBody - ordinary)
		for range atATime {
			go func() {
				if code, _ := call(text(maxBody), maxBody, time.Hour); code != http.StatusOK {
					t.Errorf("a request that was accepted is answered with %d", code)
				}
			}()
		}
		synctest.Wait()
		for name, body := range map[string]struct {
			length int64
			read   int
		}{
			"of a known length":    {maxBody, 0},
			"of an unknown length": {-1, 0},
			// It announces what can be afforded, and has more values than that.
			"many values": {ordinary / CostPerByte, 4 << 10},
		} {
			began, read := time.Now(), &counted{Reader: strings.NewReader(strings.Repeat("{[,", maxBody/3))}
			code, header := call(read, body.length, 0)
			if code != http.StatusTooManyRequests {
				t.Errorf("%s: one more large request is answered with %d", name, code)
			}
			if took := time.Since(began); took != heldFor || header.Get("Retry-After") != "0" {
				t.Errorf("%s: the answer is held for %s, and the client waits %s seconds", name, took, header.Get("Retry-After"))
			}
			if (read.n > 0) != (body.read > 0) {
				t.Errorf("%s: %d bytes were read", name, read.n)
			}
		}
		began := time.Now()
		if code, _ := call(text(ordinary/CostPerByte), ordinary/CostPerByte, 0); code != http.StatusOK || time.Since(began) > 0 {
			t.Errorf("an ordinary request is answered with %d after %s", code, time.Since(began))
		}
		time.Sleep(time.Hour)
	})
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

func TestWebhookServer_HoldsALimitedNumberOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, call := calls(t)
		for range maxHeld {
			go call(nil, maxBody+1, 0)
		}
		synctest.Wait()
		s.large.used.Store(s.large.limit)
		began := time.Now()
		if code, header := call(text(maxBody), maxBody, 0); code != http.StatusTooManyRequests || header.Get("Retry-After") != "1" || time.Since(began) > 0 {
			t.Errorf("one more is answered with %d after %s, and waits %s seconds", code, time.Since(began), header.Get("Retry-After"))
		}
		time.Sleep(heldFor)
		began = time.Now()
		if call(text(maxBody), maxBody, 0); time.Since(began) != heldFor {
			t.Errorf("a later one is held for %s", time.Since(began))
		}
	})
}

// While there are more large requests than can be served, they take at most half of
// the time of a processor.
func TestWebhookServer_PausesBetweenLargeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, call := calls(t)
		before := s.large.limit - CostPerByte*maxBody // room for one
		s.large.used.Store(before)
		const took = 10 * time.Second
		serve := func(want int) {
			t.Helper()
			if code, _ := call(text(maxBody), maxBody, took); code != want {
				t.Errorf("a request is answered with %d, want %d", code, want)
			}
		}
		serve(http.StatusOK)
		done := make(chan struct{})
		go func() { serve(http.StatusOK); close(done) }() // at once, because no other one was refused
		time.Sleep(took - heldFor/2)
		serve(http.StatusTooManyRequests)
		<-done
		time.Sleep(took - 2*heldFor)
		serve(http.StatusTooManyRequests)
		time.Sleep(heldFor)
		serve(http.StatusOK)
		synctest.Wait()
		if s.large.used.Load() != before || s.small.used != 0 {
			t.Errorf("%d and %d are taken in the end", s.large.used.Load()-before, s.small.used)
		}
	})
}

// TestWebhookServer_LeavesHalfToOtherAddresses lets a neighbour begin as many requests as it
// can, all of which it leaves unfinished.
func TestWebhookServer_LeavesHalfToOtherAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := calls(t)
		rest, unfinished := io.Pipe()
		stalled := func(length int) int {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hook", io.MultiReader(strings.NewReader(`"`+strings.Repeat("x", length)), rest))
			r.ContentLength = int64(length) + 2
			r.Header.Set("Content-Type", "application/json")
			r.RemoteAddr = "192.0.2.66:1"
			w := httptest.NewRecorder()
			s.WebhookMux().ServeHTTP(w, r)
			return w.Code
		}
		for range 70 {
			go stalled(110_000)
		}
		synctest.Wait()
		for _, length := range []int{4 << 10, ordinary / CostPerByte} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hook", text(length))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Takes", "0s")
			w := httptest.NewRecorder()
			if s.WebhookMux().ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("a request of %d bytes from another address is answered with %d", length, w.Code)
			}
		}
		_ = unfinished.CloseWithError(io.ErrUnexpectedEOF)
	})
}

// pipes is a listener for clients in the same process.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestWebhookServer_EndsUnfinishedRequests(t *testing.T) {
	const head = "POST /hook HTTP/1.1\r\nHost: x\r\n"
	body := func(length int) string {
		return fmt.Sprintf("%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", head, length)
	}
	for name, tc := range map[string]struct {
		sent, rest string // rest is sent byte by byte, ten each second
		code       int    // 0 is a connection that ends without an answer
		after      time.Duration
	}{
		"no request":                  {"", "", 0, 5 * time.Second},
		"unfinished headers":          {head + "A: ", "", 0, 5 * time.Second},
		"slow headers":                {head + "A: ", strings.Repeat("a", 1000), 0, 5 * time.Second},
		"long headers":                {head + "A: " + strings.Repeat("a", 16<<10), "", http.StatusRequestHeaderFieldsTooLarge, 0},
		"a body that does not arrive": {body(110_000), "", http.StatusBadRequest, patience},
		"a body that stops":           {body(110_000) + strings.Repeat("x", 100_000), "", http.StatusBadRequest, patience + 100_000*time.Second/bytesPerSecond},
		"a slow body":                 {body(110_000), strings.Repeat("x", 1000), http.StatusBadRequest, patience},
		"another content":             {head + "Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n12345", "", http.StatusBadRequest, heldFor},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := calls(t)
				server, l := httplimit.NewServer(s.WebhookMux()), make(pipes)
				go func() { _ = server.Serve(l) }()
				client, accepted := net.Pipe()
				l <- accepted
				began := time.Now()
				go func() {
					_, _ = io.WriteString(client, tc.sent)
					for i := range tc.rest {
						time.Sleep(100 * time.Millisecond)
						if _, err := io.WriteString(client, tc.rest[i:i+1]); err != nil {
							return
						}
					}
				}()
				code := 0
				answer, err := http.ReadResponse(bufio.NewReader(client), nil)
				if err == nil {
					code = answer.StatusCode
					_ = answer.Body.Close()
				}
				if took := time.Since(began); code != tc.code || took.Truncate(100*time.Millisecond) != tc.after.Truncate(100*time.Millisecond) {
					t.Errorf("answered with %d, %v after %s, want %d after %s", code, err, took, tc.code, tc.after)
				}
				_ = client.Close()
				close(l)
				_ = server.Close()
				time.Sleep(time.Minute) // until all of it has ended
			})
		})
	}
}

// A million empty elements have 3 MB, and need some hundred when they are decoded. The
// time to decode a quantity grows with the square of its length.
func TestWebhookServer_RefusesCostlyJSON(t *testing.T) {
	url, began, release := hooked(t)
	go func() {
		for range began {
			release <- struct{}{}
		}
	}()
	const accepted, tooMany, tooLong = "", "must have at most 100000 JSON values", "must have at most 16384 characters"
	long := strings.Repeat("9", maxNumber)
	for name, tc := range map[string]struct{ body, want string }{
		"as many values as there may be": {"[0" + strings.Repeat(",0", maxValues-1) + "]", accepted},
		"one value more":                 {"[0" + strings.Repeat(",0", maxValues) + "]", tooMany},
		"objects":                        {"[{}" + strings.Repeat(",{}", maxValues/2) + "]", tooMany},
		"a text":                         {`["` + strings.Repeat(`\",{[`, maxValues) + `"]`, accepted},

		"numbers as long as they may be": {`{"cpu":"` + long + `","memory":` + long + `}`, accepted},
		"a quantity":                     {`{"cpu":"` + long + `m"}`, tooLong},
		"a number":                       {`{"cpu":1` + long + `}`, tooLong},
		"escaped digits":                 {`{"cpu":"\u0039` + long + `\u0065\u0039"}`, tooLong},
		"the first of two":               {`{"cpu":"9` + long + `","memory":1}`, tooLong},
		"a text that starts so":          {`{"content":"9` + long + ` is a large number"}`, accepted},
		"a text that ends so":            {`{"content":"the number 9` + long + `"}`, accepted},
		"a file with lines of it":        {`{"content":"` + strings.Repeat(`31415926\n`, maxNumber) + `"}`, accepted},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, s := send(t, url, strings.NewReader(tc.body))
			want := http.StatusOK
			if tc.want != accepted {
				want = http.StatusRequestEntityTooLarge
			}
			if code != want || !strings.Contains(s.Message, tc.want) {
				t.Errorf("got %d %q, want %d %q", code, s.Message, want, tc.want)
			}
		})
	}
}

// simpleCount is count, byte by byte. It also returns the length of the longest number,
// quoted or not.
func simpleCount(text string) (n, longest int) {
	quoted, escaping := false, false
	token := ""
	end := func() {
		letters := strings.ReplaceAll(token, `\u`, "")
		if strings.Trim(letters, "+-.0123456789abcdefABCDEFikmnuGKMPT") == "" {
			longest = max(longest, len(token))
		}
		token = ""
	}
	for _, c := range []byte(text) {
		switch {
		case escaping:
			escaping = false
			token += string(c)
		case quoted && c == '\\':
			escaping = true
			token += string(c)
		case c == '"':
			quoted = !quoted
			end()
		case quoted || inNumber(c):
			token += string(c)
		default:
			end()
			if c == ',' || c == '{' || c == '[' {
				n++
			}
		}
	}
	return n, longest
}

func FuzzValues(f *testing.F) {
	for piece := range 5 {
		f.Add(`{"a\\":"\"{,",[],"\\\"\n\u0041,":[{}],"\\":",","":0}`, piece)
		f.Add(`{"12Mi":3.5e7,"\u0031\u00326":[],"\\u003112":-1,"12\n":"","1234 ":0}`, piece)
	}
	f.Fuzz(func(t *testing.T, text string, piece int) {
		var v values
		for rest := text; rest != ""; {
			n := min(len(rest), max(1, piece%10))
			v.count([]byte(rest[:n]))
			rest = rest[n:]
		}
		if n, longest := simpleCount(text); v.n != n || v.longest != longest {
			t.Errorf("%q in pieces of %d: got %d values and a number of %d, want %d and %d", text, piece, v.n, v.longest, n, longest)
		}
	})
}
