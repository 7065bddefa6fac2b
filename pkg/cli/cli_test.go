package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestReach_NamesTheRemedyIfTheClusterDoesNotAnswer(t *testing.T) {
	for text, err := range map[string]error{
		"refused":  errors.New("dial tcp 192.0.2.1:6443: connect: connection refused"),
		"frozen":   errors.New("net/http: TLS handshake timeout"),
		"unknown":  errors.New("dial tcp: lookup api.example: no such host"),
		"deadline": fmt.Errorf("listing: %w", context.DeadlineExceeded),
	} {
		if got := Reach(&rest.Config{Host: "https://api.example"}, err).Error(); !strings.Contains(got, "select another context with --context") {
			t.Errorf("%s: got %s", text, got)
		}
	}
}
