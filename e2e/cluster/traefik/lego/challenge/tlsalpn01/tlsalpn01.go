// Package tlsalpn01 would prove a domain by a certificate.
package tlsalpn01

import (
	"time"

	"github.com/go-acme/lego/v5/acme"
)

// ACMETLS1Protocol is what the ACME server would say when it connects.
const ACMETLS1Protocol = "acme-tls/1"

// ChallengeOption changes nothing.
type ChallengeOption func()

// SetDelay is no option.
func SetDelay(time.Duration) ChallengeOption { return nil }

// ChallengeBlocks refuses.
func ChallengeBlocks(string, string) (cert, key []byte, err error) { return nil, nil, acme.ErrLeftOut }
