package configsource

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// vault holds the Secrets of a namespace in the cache of metadata and in the
// API server.
type vault struct {
	client.Reader
	cached, live map[string]*corev1.Secret
	fails        error

	mu   sync.Mutex
	gets []string
	read []*corev1.Secret
}

func (v *vault) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	from := v.cached
	into, whole := o.(*corev1.Secret)
	if whole {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.gets = append(v.gets, key.Name)
		v.read = append(v.read, into)
		from = v.live
		if v.fails != nil {
			return v.fails
		}
	}
	s := from[key.Name]
	if s == nil || key.Namespace != "ns" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	if whole {
		s.DeepCopyInto(into)
	} else {
		o.SetUID(s.UID)
		o.SetResourceVersion(s.ResourceVersion)
	}
	return nil
}

// put stores a Secret in the cache and in the API server.
func (v *vault) put(name string, uid types.UID, rv string, data texts) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid, ResourceVersion: rv}, Data: map[string][]byte{}}
	for k, text := range data {
		s.Data[k] = []byte(text)
	}
	v.cached[name], v.live[name] = s, s
}

// took returns the reads since the last call.
func (v *vault) took() []string {
	got := v.gets
	v.gets = nil
	return got
}

func newVault() (*vault, *Reader) {
	v := &vault{cached: map[string]*corev1.Secret{}, live: map[string]*corev1.Secret{}}
	return v, NewReader(v, v)
}

func ask(t *testing.T, r *Reader, o client.Object, names ...string) map[string]string {
	t.Helper()
	digests := map[string]string{}
	for name, d := range r.Secrets(t.Context(), o, names) {
		if d.Err != nil {
			t.Fatal(d.Err)
		}
		digests[name] = d.Digest
	}
	return digests
}

func TestReader_ReadsASecretOncePerVersion(t *testing.T) {
	v, r := newVault()
	if got := ask(t, r, owner, "db"); got == nil || len(got) != 0 || len(v.took()) != 0 {
		t.Errorf("of none there is %v", got)
	}
	v.put("db", "u", "5", texts{"password": "a"})
	first := ask(t, r, owner, "db")
	if len(first["db"]) != 16 {
		t.Errorf("digest %q", first["db"])
	}
	expect := func(what string, changed bool, reads ...string) {
		t.Helper()
		got := ask(t, r, owner, "db")
		if (got["db"] != first["db"]) != changed {
			t.Errorf("%s: changed %v, want %v", what, !changed, changed)
		}
		if diff := cmp.Diff(reads, v.took()); diff != "" {
			t.Errorf("%s: reads (-want +got):\n%s", what, diff)
		}
		first = got
	}
	expect("first", false, "db")
	expect("again", false)
	v.put("db", "u", "6", texts{"password": "a"})
	expect("touched", false, "db")
	expect("touched, again", false)
	v.put("db", "u", "7", texts{"password": "b"})
	expect("changed", true, "db")
	v.live["db"] = nil
	expect("gone, and the cache does not know it", false)
	v.put("db", "u", "10", texts{"password": "b"})
	v.cached["db"] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "8"}}
	expect("read later than cached", false, "db")
	v.cached["db"] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "9"}}
	expect("the cache is behind what was read", false)
	delete(v.cached, "db")
	if got := ask(t, r, owner, "db"); len(got) != 0 {
		t.Errorf("it went: %v", got)
	}
}

// Guessed words cannot be verified with a digest, and equal contents have
// different digests in different Secrets.
func TestDigest_RevealsNothingWithoutTheSecret(t *testing.T) {
	of := func(uid types.UID, data texts) string {
		v, r := newVault()
		v.put("db", uid, "1", data)
		return ask(t, r, owner, "db")["db"]
	}
	all := map[string]string{}
	for name, d := range map[string]string{
		"one": of("u", texts{"a": "b"}), "of another UID": of("v", texts{"a": "b"}), "another word": of("u", texts{"a": "c"}),
		"another key": of("u", texts{"b": "b"}), "divided otherwise": of("u", texts{"a": "b 1 c 1 d"}), "two keys": of("u", texts{"a": "b", "c": "d"}),
		"nothing": of("u", nil), "an empty key": of("u", texts{"a": ""}),
	} {
		if other, same := all[d]; same {
			t.Errorf("%s and %s have one digest", name, other)
		}
		all[d] = name
	}
	if all[of("u", texts{"a": "b"})] != "one" {
		t.Error("a restart gives another digest")
	}
}

func TestReader_KeepsNoSecretContent(t *testing.T) {
	v, r := newVault()
	v.put("db", "u", "1", texts{"password": "hunter2"})
	ask(t, r, owner, "db")
	for _, s := range v.read {
		for _, content := range s.Data {
			if strings.Trim(string(content), "\x00") != "" {
				t.Errorf("%q is left", content)
			}
		}
	}
	if string(v.live["db"].Data["password"]) != "hunter2" {
		t.Error("the test's own Secret is changed: it sees nothing")
	}
}

func TestReader_SharesSecretsAcrossObjects(t *testing.T) {
	v, r := newVault()
	v.put("db", "u", "1", texts{"a": "b"})
	v.put("mail", "w", "1", texts{"a": "b"})
	other := owner.DeepCopy()
	other.UID = "other"
	var wg sync.WaitGroup
	for _, o := range []client.Object{owner, other} {
		wg.Go(func() {
			for range 50 {
				ask(t, r, o, "db", "mail")
			}
		})
	}
	wg.Wait()
	if got := slices.Sorted(slices.Values(v.took())); !slices.Equal(got, []string{"db", "mail"}) {
		t.Errorf("read %v, want each once", got)
	}
	known := func() []string {
		var all []string
		for k := range maps.Keys(r.secrets.known) {
			all = append(all, k.Name)
		}
		return slices.Sorted(slices.Values(all))
	}
	ask(t, r, owner, "mail")
	r.Forget("nobody")
	if got := known(); !slices.Equal(got, []string{"db", "mail"}) {
		t.Errorf("known are %v, want both: one object refers to both", got)
	}
	r.Forget("other")
	if got := known(); !slices.Equal(got, []string{"mail"}) {
		t.Errorf("known are %v, want what is referred to", got)
	}
	ask(t, r, owner)
	if len(r.secrets.known) != 0 || len(r.secrets.users) != 0 {
		t.Errorf("known are %v", known())
	}
	if got := v.took(); len(got) != 0 {
		t.Errorf("read %v", got)
	}
}

func TestReader_SecretsReportsFailedReads(t *testing.T) {
	v, r := newVault()
	v.put("db", "u", "1", texts{"password": "hunter2"})
	v.fails = errors.New("no")
	if err := r.Secrets(t.Context(), owner, []string{"db"})["db"].Err; err == nil || err.Error() != `reading Secret "db": no` {
		t.Errorf("got %v", err)
	}
	v.fails = nil
	if got := ask(t, r, owner, "db"); got["db"] == "" {
		t.Error("a failure is remembered")
	}
}

var expiry = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func TestReader_ChecksCertificateAndKey(t *testing.T) {
	certificate, key := pairOf(t)
	_, another := pairOf(t)
	for name, tc := range map[string]struct {
		data    texts
		want    string
		expires time.Time
	}{
		"a pair":         {data: texts{"tls.crt": certificate, "tls.key": key}, expires: expiry},
		"no certificate": {data: texts{"password": "a"}},
		"another key":    {data: texts{"tls.crt": certificate, "tls.key": another}, want: "tls: private key does not match public key"},
		"no key":         {data: texts{"tls.crt": certificate}, want: "tls: failed to find any PEM data in key input"},
	} {
		t.Run(name, func(t *testing.T) {
			v, r := newVault()
			v.put("pair", "u", "5", tc.data)
			got := r.Secrets(t.Context(), owner, []string{"pair"})["pair"]
			if got.Digest == "" || got.Pair != tc.want || !got.Expires.Equal(tc.expires) {
				t.Errorf("got %+v, want %q", got, tc.want)
			}
		})
	}
}

// pairOf returns a new certificate and its key.
func pairOf(t *testing.T) (certificate, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: expiry}
	issued, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issued})),
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}))
}
