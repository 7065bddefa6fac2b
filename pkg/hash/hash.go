// Package hash hashes values by their JSON. The hashes are stored in annotations
// and in the names of objects, so a change of this package would change children
// of all objects.
package hash

import (
	"encoding/json"
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

// Canonical returns the JSON of a value with sorted keys.
func Canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var sorted any
	if err := json.Unmarshal(raw, &sorted); err != nil {
		return nil, err
	}
	return json.Marshal(sorted)
}

// Bytes hashes bytes.
func Bytes(salt string, raw []byte) string {
	h := fnv.New64a()
	h.Write([]byte(salt)) // writing to a hash never fails
	h.Write(raw)
	return strconv.FormatUint(h.Sum64(), 16)
}
