// Package acme and its neighbours have the names that Traefik refers to, so
// that it compiles, and do nothing: who asks for a certificate gets an error.
package acme

import "errors"

// ErrLeftOut is what every operation answers.
var ErrLeftOut = errors.New("this Traefik was built without ACME")

// Account is written to Traefik's store.
type Account struct {
	Status  string   `json:"status,omitempty"`
	Contact []string `json:"contact,omitempty"`
}

// ExtendedAccount is an account and where it is.
type ExtendedAccount struct {
	Account

	Location string `json:"-"`
}
