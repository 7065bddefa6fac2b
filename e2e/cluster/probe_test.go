package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHostProbe(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "shop.example.com" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	if err := hostProbe(server.URL, "shop.example.com").ask(context.Background()); err != nil {
		t.Error(err)
	}
	if err := httpProbe(server.URL).ask(context.Background()); err == nil {
		t.Error("it answers to any name")
	}
}
