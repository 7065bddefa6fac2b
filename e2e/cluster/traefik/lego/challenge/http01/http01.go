// Package http01 would prove a domain by a page.
package http01

import "time"

// PathPrefix is where the page would be.
const PathPrefix = "/.well-known/acme-challenge/"

// ChallengeOption changes nothing.
type ChallengeOption func()

// SetDelay is no option.
func SetDelay(time.Duration) ChallengeOption { return nil }
