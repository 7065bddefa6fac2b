// Package lego would be the ACME client.
package lego

import (
	"context"
	"crypto/x509"
	"net/http"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge"
	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/go-acme/lego/v5/challenge/http01"
	"github.com/go-acme/lego/v5/challenge/tlsalpn01"
	"github.com/go-acme/lego/v5/registration"
)

// DirectoryURLLetsEncrypt is the server Traefik has in its defaults.
const DirectoryURLLetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// Config of a Client.
type Config struct {
	CADirURL, UserAgent string
	HTTPClient          *http.Client
	Certificate         struct{ Timeout time.Duration }
}

// NewConfig makes a Config.
func NewConfig(any) *Config { return &Config{} }

// Client cannot be had; Traefik names its parts.
type Client struct {
	Certificate  certificate.Certifier
	Challenge    Solvers
	Registration Registrar
}

// NewClient refuses.
func NewClient(*Config) (*Client, error) { return nil, acme.ErrLeftOut }

// CreateCertPool refuses.
func CreateCertPool([]string, bool) (*x509.CertPool, error) { return nil, acme.ErrLeftOut }

// Solvers refuse.
type Solvers struct{}

// SetDNS01Provider refuses.
func (Solvers) SetDNS01Provider(challenge.Provider, ...dns01.ChallengeOption) error {
	return acme.ErrLeftOut
}

// SetHTTP01Provider refuses.
func (Solvers) SetHTTP01Provider(challenge.Provider, ...http01.ChallengeOption) error {
	return acme.ErrLeftOut
}

// SetTLSALPN01Provider refuses.
func (Solvers) SetTLSALPN01Provider(challenge.Provider, ...tlsalpn01.ChallengeOption) error {
	return acme.ErrLeftOut
}

// Registrar refuses.
type Registrar struct{}

// Register refuses.
func (Registrar) Register(context.Context, registration.RegisterOptions) (*acme.ExtendedAccount, error) {
	return nil, acme.ErrLeftOut
}

// RegisterWithExternalAccountBinding refuses.
func (Registrar) RegisterWithExternalAccountBinding(context.Context, registration.RegisterEABOptions) (*acme.ExtendedAccount, error) {
	return nil, acme.ErrLeftOut
}
