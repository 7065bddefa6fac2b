package operator

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// dictionaryBytes is how many bytes of the first objects of a type all others are
// compressed with. Those are held as they are, so that a small cluster does not need the
// tables of an encoder, about a megabyte for each type.
const dictionaryBytes = 16 << 10

// firstByte is the first byte of an encoded object: the tag of its metadata. No frame
// of zstd begins with it.
const firstByte = 0x0a

// compressor compresses the encoded objects of one type, which have most of their bytes
// in common. The zero value is ready to use.
type compressor struct {
	mu         sync.Mutex
	dictionary []byte
	encoder    *zstd.Encoder
	decoder    *zstd.Decoder

	buffers sync.Pool // of *[]byte
}

// compress returns what read accepts. It keeps raw, or a part of it.
func (c *compressor) compress(raw []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.encoder == nil {
		c.dictionary = append(c.dictionary, raw...)
		if len(c.dictionary) < dictionaryBytes {
			return raw, nil
		}
		return raw, c.start()
	}
	// The encoder's result has spare capacity.
	buffer := c.buffer()
	defer c.buffers.Put(buffer)
	*buffer = c.encoder.EncodeAll(raw, (*buffer)[:0])
	return append(make([]byte, 0, len(*buffer)), *buffer...), nil
}

// start begins to compress.
func (c *compressor) start() error {
	const id = 1
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderDictRaw(id, c.dictionary), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithWindowSize(4*dictionaryBytes), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return fmt.Errorf("making the encoder: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderDictRaw(id, c.dictionary), zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true))
	if err != nil {
		return fmt.Errorf("making the decoder: %w", err)
	}
	c.encoder, c.decoder = encoder, decoder
	return nil
}

// read calls f with what was compressed. f must not keep it.
func (c *compressor) read(compressed []byte, f func(raw []byte) error) error {
	if len(compressed) == 0 || compressed[0] == firstByte {
		return f(compressed)
	}
	buffer := c.buffer()
	defer c.buffers.Put(buffer)
	// There are frames only after the decoder exists.
	raw, err := c.decoder.DecodeAll(compressed, (*buffer)[:0])
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
