// Package dns01 would prove a domain by a DNS record.
package dns01

import (
	"strings"
	"time"
)

// Options of a Client.
type Options struct{ RecursiveNameservers []string }

// Client asks nothing.
type Client struct{}

// NewClient makes a Client.
func NewClient(*Options) *Client { return nil }

// SetDefaultClient does nothing.
func SetDefaultClient(*Client) {}

// ChallengeOption changes nothing.
type ChallengeOption func()

// CondOptions are no options.
func CondOptions(bool, ...ChallengeOption) ChallengeOption { return nil }

// DisableAuthoritativeNssPropagationRequirement is no option.
func DisableAuthoritativeNssPropagationRequirement() ChallengeOption { return nil }

// DisableRecursiveNSsPropagationRequirement is no option.
func DisableRecursiveNSsPropagationRequirement() ChallengeOption { return nil }

// PropagationWait is no option.
func PropagationWait(time.Duration, bool) ChallengeOption { return nil }

// UnFqdn takes the final dot off a name. Traefik uses it without ACME, too.
func UnFqdn(name string) string { return strings.TrimSuffix(name, ".") }
