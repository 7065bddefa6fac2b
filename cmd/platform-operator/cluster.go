package main

import (
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/platform-operator/platform-operator/pkg/cli"
)

// cluster is a cluster that a command reads.
type cluster struct {
	config    *rest.Config
	namespace string
	client    client.Client
}

// connect returns the cluster that the flags select. Tests replace it.
var connect = func(f *cli.ClusterFlags) (cluster, error) {
	cfg, namespace, err := f.Load()
	if err != nil {
		return cluster{}, err
	}
	s, err := scheme()
	if err != nil {
		return cluster{}, err
	}
	log.SetLogger(logr.Discard())
	c, err := client.New(cfg, client.Options{Scheme: s})
	if err != nil {
		return cluster{}, fmt.Errorf("connecting to %s: %w", cfg.Host, err)
	}
	return cluster{cfg, namespace, c}, nil
}
