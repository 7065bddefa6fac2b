package message

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// CheckStatus returns an error for each message in the status of an object that is
// not defined. kinds are the name and the groups of its kind. It is for tests.
func CheckStatus(kinds []string, conditions []metav1.Condition, actions []common.Action) error {
	var errs []error
	for _, c := range conditions {
		errs = append(errs, Check(kinds, c.Type, string(c.Status), c.Reason, c.Message))
	}
	for _, a := range actions {
		errs = append(errs, Check(kinds, LastActions, "", a.Reason, a.Message))
	}
	return errors.Join(errs...)
}
