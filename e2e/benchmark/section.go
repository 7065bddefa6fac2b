// Package benchmark writes the results of benchmarks into the documentation: a section
// of a page, data as CSV, and charts.
package benchmark

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// WriteSection replaces the text between the lines begin and end of the file, and appends
// it, with these lines, if they are missing. The rest of the file can be edited.
func WriteSection(file, title, begin, end, content string) error {
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the file to update: %w", err)
	}
	text := string(raw)
	if text == "" {
		text = title + "\n\n"
	}
	if text, err = replace(text, begin, end, content); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// replace returns the text with the part between the two lines replaced.
func replace(text, begin, end, content string) (string, error) {
	section := begin + "\n\n" + strings.TrimRight(content, "\n") + "\n\n" + end
	before, rest, ok := strings.Cut(text, begin)
	if !ok {
		return strings.TrimRight(text, "\n") + "\n\n" + section + "\n", nil
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("%q is not followed by %q", begin, end)
	}
	return before + section + after, nil
}
