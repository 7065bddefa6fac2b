// Package model searches for defects by random chains of operations: it edits
// an object in every way that its API allows, edits and deletes its children,
// kills the operator in the middle of it, and compares what follows with a
// small model of what the documentation promises.
//
// A real API server and the real garbage collector run; the Deployment
// controller, the kubelet and the autoscaler are simulated (deployments.go,
// kubelet.go, hpa.go), so that minutes of a rollout take milliseconds.
//
//	catalogue.go   the operations that a chain is made of
//	faults.go      what can go wrong between the operator and the API server
//	chain.go       chains: generated, written as text, executed
//	expect.go      the model: what a user may expect of an object
//	oracles.go     the comparison, after each step and at each instant
//	shrink.go      the shortest chain that still violates an oracle
//	script.go      that chain as a kubectl script
//	pairs.go       which pairs of operations have been tried
//	campaign.go    many chains in parallel, and a summary
//	cluster.go     chains on a real cluster, where nothing is simulated
//
// docs/model-testing.md explains how to run it and how to add an operation.
package model
