// Package hash hashes values by their JSON. The hashes are stored in annotations
// and in the names of objects, so a change of this package would change children
// of all objects.
package hash

import (
	"hash/fnv"
	"strconv"
)

// Of hashes the JSON of a value with sorted keys, so that reordering the fields of
// a type does not change the hash.
func Of(salt string, v any) (string, error) {
	raw, err := Canonical(v)
	if err != nil {
		return "", err
	}
	return Bytes(salt, raw), nil
}

// Bytes hashes bytes.
func Bytes(salt string, raw []byte) string {
	h := fnv.New64a()
	h.Write([]byte(salt)) // writing to a hash never fails
	h.Write(raw)
	return strconv.FormatUint(h.Sum64(), 16)
}
