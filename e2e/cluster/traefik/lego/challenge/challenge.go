// Package challenge says what Traefik's own ways to prove a domain look like.
package challenge

import (
	"context"
	"time"
)

// Provider shows a token where the ACME server looks for it.
type Provider interface {
	Present(ctx context.Context, domain, token, keyAuth string) error
	CleanUp(ctx context.Context, domain, token, keyAuth string) error
}

// ProviderTimeout is a provider that needs its time.
type ProviderTimeout interface {
	Provider

	Timeout() (timeout, interval time.Duration)
}
