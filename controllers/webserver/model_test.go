package webserver

import (
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

func desired(w *webserverv1.WebServer, o Observed, platform config.Platform) (converge.Plan, error) {
	return newModel(w, o, platform).Plan()
}

func report(w *webserverv1.WebServer, o Observed, out converge.Outcome, platform config.Platform) {
	newModel(w, o, platform).UpdateStatus(out)
}
