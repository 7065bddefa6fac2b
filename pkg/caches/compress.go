package caches

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
)

// dictionaryBytes is how many bytes of the first objects of a type are the dictionary of
// all others.
const dictionaryBytes = 16 << 10

// compressor compresses the encoded objects of one type, which have most of their bytes
// in common. The zero value is ready to use.
type compressor struct {
	mu         sync.Mutex
	first      []byte // objects that become the dictionary
	dictionary *s2.Dict

	buffers sync.Pool // of *[]byte
}

// compress returns raw itself, and false, until there is a dictionary.
func (c *compressor) compress(raw []byte) ([]byte, bool) {
	c.mu.Lock()
	dictionary := c.dictionary
	if dictionary == nil {
		c.first = append(c.first, raw...)
		if len(c.first) >= dictionaryBytes {
			// MakeDict searches for each prefix of its second argument; objects of a type begin alike.
			c.dictionary, c.first = s2.MakeDict(c.first, raw[:min(len(raw), 64)]), nil
		}
	}
	c.mu.Unlock()
	if dictionary == nil {
		return raw, false
	}
	// The result has spare capacity.
	buffer := c.buffer()
	defer c.buffers.Put(buffer)
	*buffer = dictionary.Encode(*buffer, raw)
	return append(make([]byte, 0, len(*buffer)), *buffer...), true
}

// read calls f with what was compressed. f must not keep it.
func (c *compressor) read(compressed []byte, f func(raw []byte) error) error {
	buffer := c.buffer()
	defer c.buffers.Put(buffer)
	// What is compressed is newer than the dictionary, which never changes.
	raw, err := c.dictionary.Decode(*buffer, compressed)
	if err != nil {
		return fmt.Errorf("decompressing: %w", err)
	}
	*buffer = raw
	return f(raw)
}

func (c *compressor) buffer() *[]byte {
	if b, ok := c.buffers.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}
