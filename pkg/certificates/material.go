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

// Keys of the Secret. The bundle contains every CA that may have signed a
// certificate in use, newest first. The key is that of the newest CA.
const (
	bundleKey = "ca.crt"
	caKeyKey  = "ca.key"
)

// backdate is how long before the current time a certificate becomes valid,
// because clocks differ. A day is more than the error of a hardware clock that
// is set to local time.
const backdate = day

// manyCAs is the maximum number of CAs in a bundle. During a rotation there are
// two; more are added only if the Secret is damaged repeatedly.
const manyCAs = 5

// material is the usable part of the data of a Secret.
type material struct {
	// bundle contains the CAs that have not expired, in their order. It
	// includes those that are not valid yet, because an API server whose clock
	// is ahead may need them.
	bundle []*x509.Certificate
	// signer is the key of the first CA, or nil. A CA that is not valid yet
	// must not sign, because the API server would not accept its certificates.
	signer crypto.Signer
	// serving is the serving certificate, or nil if no CA in the bundle has
	// signed it.
	serving *tls.Certificate
}

// read returns the part of the data that is usable now. The rest must be issued
// again, whatever is wrong with it.
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

// signedBy reports whether the given CA has signed the serving certificate.
func (m material) signedBy(ca *x509.Certificate) bool {
	return m.serving.Leaf.CheckSignatureFrom(ca) == nil
}

// trust is what all replicas and API servers must have observed before the next
// step of a CA rotation: the CAs, and whether the newest one has signed the
// serving certificate. It does not change when a certificate is renewed by the
// same CA.
type trust struct {
	bundle string
	newest bool
}

func trustOf(data map[string][]byte, now time.Time) trust {
	m := read(data, now)
	return trust{string(data[bundleKey]), m.serving != nil && m.signedBy(m.bundle[0])}
}

// due returns when the serving certificate must be renewed: immediately if a
// name is missing in it, and not before its expiry if the next one would expire
// at the same time, together with the CA.
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

// step returns the next data of a Secret and the reason for the change, or an
// empty reason if the data remains. It takes at most one step, so that all
// replicas and API servers observe a change before the next one; settled
// reports that they have. The steps of a CA rotation are
//
//	bundle   serving certificate
//	A        of A
//	B, A     of A: B is not trusted everywhere yet
//	B, A     of B: some replicas still serve A's
//	B        of B
//
// and the current one can be determined from the data alone.
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

// roll adds a new CA. The serving certificate is kept if it is valid, because
// the new CA is not trusted yet.
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

// sign issues a serving certificate signed by the newest CA.
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

// mend adds previous data to unusable data, so that what is issued next
// overlaps with what is still in use. It does not restore the key of the CA,
// because deleting the Secret is how a stolen key is revoked.
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
		return data // a new certificate is trusted immediately, or nothing can be restored
	}
	return old
}

// with returns a copy of the data with one value changed.
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
