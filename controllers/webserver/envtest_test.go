//go:build envtest

package webserver

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// env is the API server of this package's tests.
var env *testkit.Env

func TestMain(m *testing.M) {
	os.Exit(func() int {
		flag.Parse()
		if testing.Verbose() {
			log.SetLogger(zap.New(zap.UseDevMode(true)))
		} else {
			log.SetLogger(zap.New(zap.WriteTo(nowhere{})))
		}
		scheme := runtime.NewScheme()
		if err := clientgoscheme.AddToScheme(scheme); err != nil {
			panic(err)
		}
		if err := webserverv1.AddToScheme(scheme); err != nil {
			panic(err)
		}
		var err error
		if env, err = testkit.Start(scheme, filepath.Join("..", "..", "config", "crd", "bases")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		ctx, cancel := context.WithCancel(context.Background())
		rollouts := make(chan error, 1)
		go func() { rollouts <- env.Rollouts(ctx) }()
		code := m.Run()
		cancel()
		if err := <-rollouts; err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}())
}

type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// subject is the WebServer controller. A node port is cluster-wide, so tests
// that run side by side prefer none.
func subject() testkit.Subject {
	return subjectWith(config.WebServer{ServiceType: corev1.ServiceTypeNodePort})
}

func subjectWith(platform config.WebServer) testkit.Subject {
	return testkit.Subject{
		Children: Kind(platform).Children,
		Setup: func(mgr manager.Manager, a *apply.Applier) error {
			return converge.Register(mgr, Kind(platform), a, 2)
		},
	}
}

func newNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := env.Admin.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

func webServer(ns, name string, change ...func(*webserverv1.WebServer)) *webserverv1.WebServer {
	w := &webserverv1.WebServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       webserverv1.WebServerSpec{Image: "nginx:1.23.1", Replicas: new(int32(3))},
	}
	for _, c := range change {
		c(w)
	}
	return w
}
