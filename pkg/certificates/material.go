package certificates

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret. The bundle has every CA that a certificate in use may be
// signed by, the newest first; the key is the newest one's.
const (
	bundleKey = "ca.crt"
	caKeyKey  = "ca.key"
)

// backdate is how much earlier than now a certificate begins, because clocks
// differ. A day is more than what a hardware clock in local time is wrong by.
const backdate = day

// manyCAs is how many CAs a bundle has at most. Two are usual during a roll;
// there are more only if somebody damages the Secret again and again.
const manyCAs = 5

// material is what can be used of the data of a Secret.
type material struct {
	// bundle has the CAs that have not expired, in their order. One that is not
	// valid yet stays: an API server whose clock is ahead may need it.
	bundle []*x509.Certificate
	// signer is the key of the first CA, or nil. A CA that is not valid yet must
	// not sign: the API server would not accept its certificates.
	signer crypto.Signer
	// serving is the serving certificate, or nil if no CA of the bundle vouches
	// for it.
	serving *tls.Certificate
}

// read takes from the data what can be used now. What cannot is left out: it
// has to be made anew, whatever is wrong with it.
func read(data map[string][]byte, now time.Time) material {
	var m material
	roots := x509.NewCertPool()
	for rest := data[bundleKey]; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !ca.IsCA || now.After(ca.NotAfter) || slices.ContainsFunc(m.bundle, ca.Equal) {
			continue
		}
		m.bundle = append(m.bundle, ca)
		roots.AddCert(ca)
	}
	if len(m.bundle) > 0 && !now.Before(m.bundle[0].NotBefore) {
		if pair, err := tls.X509KeyPair(encode(m.bundle[:1]), data[caKeyKey]); err == nil {
			m.signer, _ = pair.PrivateKey.(crypto.Signer)
		}
	}
	if pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]); err == nil {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now}); err == nil {
			m.serving = &pair
		}
	}
	return m
}

// signedBy tells whether the serving certificate is the given CA's.
func (m material) signedBy(ca *x509.Certificate) bool {
	return m.serving.Leaf.CheckSignatureFrom(ca) == nil
}

// trust is what others have to learn before the next step of a CA roll: which
// CAs there are, and whether the newest has signed. It stays when a certificate
// is renewed by the same CA.
type trust struct {
	bundle string
	newest bool
}

func trustOf(data map[string][]byte, now time.Time) trust {
	m := read(data, now)
	return trust{string(data[bundleKey]), m.serving != nil && m.signedBy(m.bundle[0])}
}

// due is when the serving certificate has to be renewed: at once if a name is
// missing in it, and not if the next one would end with the same CA.
func (m material) due(l Lifetimes, names []string) time.Time {
	for _, n := range names {
		if m.serving.Leaf.VerifyHostname(n) != nil {
			return time.Time{}
		}
	}
	ends := m.serving.Leaf.NotAfter
	if !ends.Before(m.bundle[0].NotAfter) {
		return ends
	}
	return ends.Add(-l.RenewBefore)
}

// step returns the data that a Secret should have next, and why; without a
// reason it is to stay. One step at most is taken, so that what it changes can
// reach everybody before the next: settled tells that it has. The steps of a
// CA roll are
//
//	bundle   serving certificate
//	A        of A
//	B, A     of A: B is not trusted everywhere yet
//	B, A     of B: some replicas still serve A's
//	B        of B
//
// and which of them it is can be read from the data alone.
func step(data map[string][]byte, l Lifetimes, names []string, now time.Time, settled bool) (map[string][]byte, string, error) {
	m := read(data, now)
	switch {
	case m.signer == nil:
		return m.roll(data, l, names, now, "made a new CA: there was none that could be used")
	case m.serving == nil:
		return m.sign(data, l, names, now, "made a new certificate: there was none that could be used")
	case len(m.bundle) == 1 && !now.Before(m.bundle[0].NotAfter.Add(-l.CARenewBefore)):
		return m.roll(data, l, names, now, "made a new CA: the one before ends soon")
	case !m.signedBy(m.bundle[0]):
		if settled {
			return m.sign(data, l, names, now, "made a certificate of the new CA")
		}
	case !now.Before(m.due(l, names)):
		return m.sign(data, l, names, now, "renewed the certificate")
	case settled && !bytes.Equal(data[bundleKey], encode(m.bundle[:1])):
		return with(data, bundleKey, encode(m.bundle[:1])), "dropped the old CA", nil
	}
	return data, "", nil
}

// roll adds a new CA. The serving certificate stays if it can: nobody knows the
// new CA yet.
func (m material) roll(data map[string][]byte, l Lifetimes, names []string, now time.Time, why string) (map[string][]byte, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("making the key of a CA: %w", err)
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "platform-operator-ca"},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(l.CAValidity),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, "", fmt.Errorf("making a CA: %w", err)
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, "", fmt.Errorf("reading the new CA: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, "", err
	}
	m.bundle = slices.Insert(m.bundle, 0, ca)
	m.bundle = m.bundle[:min(len(m.bundle), manyCAs)]
	m.signer = key
	data = with(with(data, caKeyKey, keyPEM), bundleKey, encode(m.bundle))
	if m.serving == nil {
		return m.sign(data, l, names, now, why)
	}
	return data, why, nil
}

// sign makes a serving certificate of the newest CA.
func (m material) sign(data map[string][]byte, l Lifetimes, names []string, now time.Time, why string) (map[string][]byte, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("making the key of a certificate: %w", err)
	}
	ca, end := m.bundle[0], now.Add(l.Validity)
	if end.After(ca.NotAfter) {
		end = ca.NotAfter
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "platform-operator"}, DNSNames: names,
		NotBefore: now.Add(-backdate), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), m.signer)
	if err != nil {
		return nil, "", fmt.Errorf("making a certificate: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, "", err
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return with(with(data, corev1.TLSCertKey, certPEM), corev1.TLSPrivateKeyKey, keyPEM), why, nil
}

// mend adds to data that can not be used what was there before, so that what is
// made anew overlaps with what is still in use. The CA's key is not put back:
// to delete the Secret is how a stolen key is got rid of.
func mend(data, before map[string][]byte, now time.Time) map[string][]byte {
	m := read(data, now)
	if m.signer != nil && m.serving != nil {
		return data
	}
	old := with(data, bundleKey, slices.Concat(data[bundleKey], before[bundleKey]))
	if m.signer == nil {
		old[caKeyKey] = nil
	}
	if m.serving == nil {
		old[corev1.TLSCertKey], old[corev1.TLSPrivateKeyKey] = before[corev1.TLSCertKey], before[corev1.TLSPrivateKeyKey]
	}
	o := read(old, now)
	if o.serving == nil || m.signer != nil && o.signedBy(o.bundle[0]) {
		return data // a new certificate is trusted at once, or nothing can be saved
	}
	return old
}

// with is a copy of the data with one value changed.
func with(data map[string][]byte, key string, value []byte) map[string][]byte {
	changed := map[string][]byte{}
	for _, k := range []string{bundleKey, caKeyKey, corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		changed[k] = data[k]
	}
	changed[key] = value
	return changed
}

func encode(cas []*x509.Certificate) []byte {
	var all []byte
	for _, ca := range cas {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})...)
	}
	return all
}

func encodeKey(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
