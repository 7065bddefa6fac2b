package probe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHTTPHost_SendsHost(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "shop.example.com" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	if err := HTTPHost(server.URL, "shop.example.com").Ask(context.Background()); err != nil {
		t.Error(err)
	}
	if err := HTTP(server.URL).Ask(context.Background()); err == nil {
		t.Error("it answers to any name")
	}
}
