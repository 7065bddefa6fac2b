// Package registration says how to register with an ACME server.
package registration

// RegisterOptions for everybody.
type RegisterOptions struct{ TermsOfServiceAgreed bool }

// RegisterEABOptions for those who have an account there.
type RegisterEABOptions struct {
	TermsOfServiceAgreed bool
	Kid, HmacEncoded     string
}
