// Package certificate would obtain certificates.
package certificate

import (
	"context"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certcrypto"
)

// ObtainRequest asks for a certificate.
type ObtainRequest struct {
	Domains, EmailAddresses  []string
	Bundle, EnableCommonName bool
	Profile, PreferredChain  string
	KeyType                  certcrypto.KeyType
}

// RenewOptions ask for a later certificate.
type RenewOptions struct {
	EmailAddresses           []string
	Bundle, EnableCommonName bool
	Profile, PreferredChain  string
}

// Resource is a certificate.
type Resource struct {
	ID, Domain              string
	Domains                 []string
	PrivateKey, Certificate []byte
}

// Certifier refuses.
type Certifier struct{}

// Obtain refuses.
func (Certifier) Obtain(context.Context, ObtainRequest) (*Resource, error) {
	return nil, acme.ErrLeftOut
}

// Renew refuses.
func (Certifier) Renew(context.Context, Resource, *RenewOptions) (*Resource, error) {
	return nil, acme.ErrLeftOut
}
