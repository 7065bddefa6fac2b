// Package model searches for defects with random chains of operations. It edits an
// object in every way that its API allows, edits and deletes its children, kills
// the operator in between, and compares the result with a small model of the
// promises in the documentation.
//
// A real API server and the real garbage collector are running. The Deployment
// controller and the kubelet are simulated (deployments.go, kubelet.go), so that
// minutes of a rollout take milliseconds.
//
//	catalogue.go   the operations of chains
//	faults.go      failures between the operator and the API server
//	chain.go       chains: written as text, executed
//	generate.go    random chains
//	expect.go      the model: what a user may expect of an object
//	oracles.go     the comparison, after each step and at each instant
//	fresh.go       the comparison with a fresh object at the end of a chain
//	shrink.go      the shortest chain that still violates an oracle
//	campaign.go    many chains in parallel, and a summary
//
// docs/contributing/model-testing.md explains how to run it and how to add an operation.
package model
