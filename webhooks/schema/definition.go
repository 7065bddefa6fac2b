// Package schema validates objects in process as the API server does with a
// CustomResourceDefinition alone, that is, while no webhook is available.
package schema

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Definition contains one version of a CustomResourceDefinition.
type Definition struct {
	GVK      schema.GroupVersionKind
	Resource schema.GroupVersionResource
	// Schema is the schema of the whole object.
	Schema *apiextensionsv1.JSONSchemaProps

	rules  []Rule
	places []*regexp.Regexp // of each rule
	byMark map[string]Rule

	scale      *apiextensionsv1.CustomResourceSubresourceScale
	structural *structural.Structural
	validator  validation.SchemaValidator
	cel        *cel.Validator
}

// Read reads one version of a CRD from a file; "" is the stored version.
func Read(path, version string) (*Definition, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // tests specify the file
	if err != nil {
		return nil, fmt.Errorf("reading a CRD: %w", err)
	}
	var def apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &def); err != nil {
		return nil, fmt.Errorf("reading the CRD %s: %w", path, err)
	}
	return New(def, version)
}

// New returns one version of a CRD; "" is the stored version.
func New(def apiextensionsv1.CustomResourceDefinition, version string) (*Definition, error) {
	for _, v := range def.Spec.Versions {
		if v.Name == version || version == "" && v.Storage {
			d := &Definition{
				GVK:      schema.GroupVersionKind{Group: def.Spec.Group, Version: v.Name, Kind: def.Spec.Names.Kind},
				Resource: schema.GroupVersionResource{Group: def.Spec.Group, Version: v.Name, Resource: def.Spec.Names.Plural},
				Schema:   v.Schema.OpenAPIV3Schema,
			}
			d.rules, d.byMark = enumerate(d.Schema)
			d.places = places(d.rules)
			if v.Subresources != nil {
				d.scale = v.Subresources.Scale
			}
			return d, d.build(true)
		}
	}
	return nil, fmt.Errorf("%s has no version %q", def.Spec.Names.Kind, version)
}

// build creates the validators of the schema. The CEL rules are compiled only on
// request, because that takes nearly all of the time.
func (d *Definition) build(compile bool) error {
	marked := d.Schema.DeepCopy()
	if compile {
		mark(marked)
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(marked, &internal, nil); err != nil {
		return fmt.Errorf("converting the schema of %s: %w", d.GVK.Kind, err)
	}
	var err error
	if d.structural, err = structural.NewStructural(&internal); err != nil {
		return fmt.Errorf("the schema of %s is not structural: %w", d.GVK.Kind, err)
	}
	if d.validator, _, err = validation.NewSchemaValidator(&internal); err != nil {
		return fmt.Errorf("the schema of %s: %w", d.GVK.Kind, err)
	}
	if compile {
		d.cel = cel.NewValidator(d.structural, true, celconfig.PerCallLimit)
	}
	return nil
}

// Decode reads an object like the API server: unknown fields and nulls are dropped,
// and what fieldValidation Strict would report is returned in strict. err is for
// objects that cannot be parsed.
func (d *Definition) Decode(raw []byte) (obj map[string]any, strict []string, err error) {
	faults, err := kjson.UnmarshalStrict(raw, &obj, kjson.DisallowDuplicateFields)
	if err != nil {
		return nil, nil, fmt.Errorf("decoding: %w", err)
	}
	for _, f := range faults {
		strict = append(strict, f.Error())
	}
	u := &unstructured.Unstructured{Object: obj}
	if gvk := u.GroupVersionKind(); gvk != d.GVK {
		return nil, nil, fmt.Errorf("apiVersion and kind are %s %s, not %s %s", gvk.GroupVersion(), gvk.Kind, d.GVK.GroupVersion(), d.GVK.Kind)
	}
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(obj, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, nil, fmt.Errorf("decoding metadata: %w", err)
	}
	unknown = append(unknown, pruning.PruneWithOptions(obj, d.structural, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, d.structural)
	u.SetGroupVersionKind(d.GVK)
	if found {
		if err := objectmeta.SetObjectMeta(obj, meta); err != nil {
			return nil, nil, fmt.Errorf("decoding metadata: %w", err)
		}
	}
	for _, f := range unknown {
		strict = append(strict, fmt.Sprintf("unknown field %q", f))
	}
	defaulting.Default(obj, d.structural)
	return obj, strict, nil
}

// Failure is a validation error and the rule that caused it. The rule is nil for
// errors that no schema specifies, such as a wrong type.
type Failure struct {
	*field.Error
	Rule *Rule
}

// Create validates the creation of an object that Decode has read. Like the API
// server, it generates a name from generateName.
func (d *Definition) Create(ctx context.Context, obj map[string]any) []Failure {
	u := (&unstructured.Unstructured{Object: obj}).DeepCopy()
	delete(u.Object, "status")
	inNamespace(u)
	if u.GetName() == "" && u.GetGenerateName() != "" {
		const most = 63 - 5
		u.SetName(u.GetGenerateName()[:min(most, len(u.GetGenerateName()))] + "x7k2p")
	}
	errs := apivalidation.ValidateObjectMetaAccessor(u, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResource(nil, u.Object, d.validator)...)
	errs = append(errs, d.scalable(u.Object)...)
	errs = append(errs, objectmeta.Validate(ctx, nil, u.Object, d.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, u.Object)...)
	if !blocking(errs) {
		more, _ := d.cel.Validate(ctx, nil, d.structural, u.Object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, more...)
	}
	return d.attribute(errs)
}

// Update validates an update of an object, with the ratcheting of the API server:
// errors that already existed, in fields that did not change, are not returned.
func (d *Definition) Update(ctx context.Context, obj, old map[string]any) []Failure {
	correlated := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: d.structural})
	u := (&unstructured.Unstructured{Object: obj}).DeepCopy()
	inNamespace(u)
	errs := apivalidation.ValidateObjectMetaAccessor(u, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResourceUpdate(nil, obj, old, d.validator, validation.WithRatcheting(correlated))...)
	errs = append(errs, d.scalable(obj)...)
	errs = append(errs, objectmeta.Validate(ctx, nil, obj, d.structural, false)...)
	if len(listtype.ValidateListSetsAndMaps(nil, d.structural, old)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, obj)...)
	}
	if !blocking(errs) {
		more, _ := d.cel.Validate(ctx, nil, d.structural, obj, old, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(correlated))
		errs = append(errs, more...)
	}
	return d.attribute(errs)
}

// inNamespace sets the namespace, which the API server takes from the request.
func inNamespace(u *unstructured.Unstructured) {
	if u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
}

// scalable rejects values that the scale subresource could not read.
func (d *Definition) scalable(obj map[string]any) field.ErrorList {
	if d.scale == nil {
		return nil
	}
	at := strings.TrimPrefix(d.scale.SpecReplicasPath, ".")
	if n, _, err := unstructured.NestedInt64(obj, strings.Split(at, ".")...); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath(d.scale.SpecReplicasPath), n, err.Error())}
	}
	return nil
}

// blocking reports whether the API server does not evaluate CEL rules after these
// errors.
func blocking(errs field.ErrorList) bool {
	for _, e := range errs {
		switch e.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}

// attribute finds the rule of each error, and removes the marks from messages.
func (d *Definition) attribute(errs field.ErrorList) []Failure {
	var faults []Failure
	for _, e := range errs {
		f := Failure{Error: e}
		if m := markIn.FindStringSubmatch(e.Detail); m != nil {
			r := d.byMark[m[1]]
			f.Rule = &r
			e.Detail = markIn.ReplaceAllString(e.Detail, "")
		} else if r, ok := d.structuralRule(e); ok {
			f.Rule = &r
		}
		if e.Field == "<nil>" { // a rule of the whole object, whose message begins with the field
			e.Field, _, _ = strings.Cut(e.Detail, " ")
		}
		faults = append(faults, f)
	}
	return faults
}

// Without returns the definition without one rule, which must not be a CEL rule.
func (d *Definition) Without(r Rule) (*Definition, error) {
	if r.Keyword == KeywordCEL {
		return nil, errors.New("a CEL rule is judged by its mark: see Failure.Rule")
	}
	less := *d
	less.Schema = d.Schema.DeepCopy()
	if err := remove(less.Schema, r); err != nil {
		return nil, err
	}
	return &less, less.build(false)
}
