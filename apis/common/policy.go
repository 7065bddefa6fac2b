package common

// DeletionPolicy says what happens to the children when their object is deleted.
//
// +kubebuilder:validation:Enum=Delete;Orphan
type DeletionPolicy string

const (
	// DeletionPolicyDelete lets Kubernetes' garbage collection delete the
	// children. It is the default and costs no request of the operator.
	DeletionPolicyDelete DeletionPolicy = "Delete"
	// DeletionPolicyOrphan releases the children before the object goes: they
	// go on serving, and nobody manages them any more.
	DeletionPolicyOrphan DeletionPolicy = "Orphan"
)
