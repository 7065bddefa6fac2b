package compare

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var (
	quantityType  = reflect.TypeFor[resource.Quantity]()
	intstrType    = reflect.TypeFor[intstr.IntOrString]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
)

// isEncoded reports whether values of a type are compared by their JSON: times,
// durations and opaque content have a single notation.
func isEncoded(t reflect.Type) bool { return t.Implements(marshalerType) }

func coversScalar(live reflect.Value, stated any) bool {
	for live.Kind() == reflect.Pointer {
		if live.IsNil() {
			return false
		}
		live = live.Elem()
	}
	switch t := live.Type(); {
	case t == quantityType:
		return coversQuantity(live.Interface().(resource.Quantity), stated)
	case t == intstrType:
		v := live.Interface().(intstr.IntOrString)
		if v.Type == intstr.String {
			return stated == any(v.StrVal)
		}
		return stated == any(float64(v.IntVal))
	case t.Kind() == reflect.Struct && isEncoded(t):
		raw, err := json.Marshal(live.Interface())
		var content any
		return err == nil && json.Unmarshal(raw, &content) == nil && reflect.DeepEqual(content, stated)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return stated == any(base64.StdEncoding.EncodeToString(live.Bytes()))
	case t.Kind() == reflect.String:
		return stated == any(live.String())
	case t.Kind() == reflect.Bool:
		return stated == any(live.Bool())
	}
	number, isNumber := stated.(float64)
	return isNumber && coversNumber(live, number)
}

func coversNumber(live reflect.Value, stated float64) bool {
	switch {
	case live.CanInt():
		return float64(live.Int()) == stated
	case live.CanUint():
		return float64(live.Uint()) == stated
	case live.CanFloat():
		return live.Float() == stated
	}
	return false
}

func coversQuantity(live resource.Quantity, stated any) bool {
	s, isString := stated.(string)
	if !isString {
		return false
	}
	want, err := resource.ParseQuantity(s)
	if err != nil {
		return false
	}
	if live.Cmp(want) == 0 {
		return true
	}
	want.RoundUp(resource.Milli) // as the API server does
	return live.Cmp(want) == 0
}

// isEmpty reports whether a value sets nothing. The API server stores an empty
// object for a security context that is not set.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil() || v.Elem().Kind() == reflect.Struct && isEmpty(v.Elem())
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		for i := range v.NumField() { //nolint:modernize // Fields allocates, for every value
			if !isEmpty(v.Field(i)) {
				return false
			}
		}
		return true
	default:
		return v.IsZero()
	}
}

// isDefault reports whether a value is the default that the API server sets for its
// field.
func isDefault(path string, v reflect.Value) bool {
	given, known := unset[path]
	if !known {
		_, name := cutLast(path)
		given, known = unset[name]
	}
	return known && (given == nil || coversScalar(v, given))
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// unset lists the defaults that the API server sets for fields of pods,
// Deployments and Services: removing such a value from the intent changes
// nothing. nil means any value, for fields that the API server allocates.
var unset = map[string]any{
	"clusterIP": nil, "clusterIPs": nil, "ipFamilies": nil,
	"spec.strategy.rollingUpdate.maxSurge": "25%", "spec.strategy.rollingUpdate.maxUnavailable": "25%",
	"creationTimestamp":             nil,
	"spec.type":                     "ClusterIP",
	"spec.strategy.type":            "RollingUpdate",
	"spec.replicas":                 1.0,
	"spec.revisionHistoryLimit":     10.0,
	"spec.progressDeadlineSeconds":  600.0,
	"spec.sessionAffinity":          "None",
	"spec.internalTrafficPolicy":    "Cluster",
	"spec.ipFamilyPolicy":           "SingleStack",
	"dnsPolicy":                     "ClusterFirst",
	"restartPolicy":                 "Always",
	"schedulerName":                 "default-scheduler",
	"terminationGracePeriodSeconds": 30.0,
	"terminationMessagePath":        "/dev/termination-log",
	"terminationMessagePolicy":      "File",
	"protocol":                      "TCP",
	"timeoutSeconds":                1.0,
	"periodSeconds":                 10.0,
	"successThreshold":              1.0,
	"failureThreshold":              3.0,
	"scheme":                        "HTTP",
	"procMount":                     "Default",
	"defaultMode":                   420.0,
}
