// Package promrules tests the generated alerts and recording rules with the parser
// and the engine of Prometheus: what promtool check rules and promtool test rules
// do, without a tool to install.
package promrules
