// Package certcrypto names the kinds of keys.
package certcrypto

// KeyType is a kind of key.
type KeyType string

// The kinds of keys Traefik lets one choose from.
const (
	EC256   KeyType = "P256"
	EC384   KeyType = "P384"
	RSA2048 KeyType = "2048"
	RSA4096 KeyType = "4096"
	RSA8192 KeyType = "8192"
)
