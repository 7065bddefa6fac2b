package certificates

import (
	"fmt"
	"time"
)

// Lifetimes specifies how long certificates are valid, and when they are
// renewed.
type Lifetimes struct {
	// Validity is the validity of a serving certificate, and RenewBefore is how
	// long before its expiry the next one is issued.
	Validity, RenewBefore time.Duration
	// CAValidity and CARenewBefore are the same for the CA.
	CAValidity, CARenewBefore time.Duration
	// Overlap is how long each step of a CA rotation must have been observed
	// without interruption before the next one. It must be longer than any API
	// server or replica may take to observe a change.
	Overlap time.Duration
}

const day = 24 * time.Hour

// DefaultLifetimes returns a validity of 90 days, renewed 30 days before
// expiry, and ten years for the CA. API servers and replicas observe a change
// within moments, or within minutes after a broken watch. An overlap of one
// hour is ample and has no cost.
func DefaultLifetimes() Lifetimes {
	return Lifetimes{
		Validity: 90 * day, RenewBefore: 30 * day,
		CAValidity: 3650 * day, CARenewBefore: 365 * day,
		Overlap: time.Hour,
	}
}

// Validate returns an error if a certificate could expire before the next one
// is in use everywhere.
func (l Lifetimes) Validate() error {
	switch {
	case l.Overlap <= 0:
		return fmt.Errorf("overlap %s must be more than 0", l.Overlap)
	case l.RenewBefore < 2*l.Overlap:
		return fmt.Errorf("renew-before %s must be at least %s, which is how long a CA roll takes", l.RenewBefore, 2*l.Overlap)
	case l.Validity <= l.RenewBefore:
		return fmt.Errorf("validity %s must be longer than renew-before %s", l.Validity, l.RenewBefore)
	case l.CARenewBefore < l.Validity:
		return fmt.Errorf("validity %s must not be longer than %s, which is what the CA still has when it is renewed", l.Validity, l.CARenewBefore)
	case l.CAValidity < l.CARenewBefore+2*l.Overlap:
		return fmt.Errorf("CA validity %s must be at least %s: the CA before it has to be gone when it is renewed", l.CAValidity, l.CARenewBefore+2*l.Overlap)
	}
	return nil
}
