package common

// DeletionPolicy defines what happens to the children when the object is
// deleted.
//
// +kubebuilder:validation:Enum=Delete;Orphan
type DeletionPolicy string

const (
	// DeletionPolicyDelete leaves the deletion of the children to garbage
	// collection. It is the default and costs the operator no request.
	DeletionPolicyDelete DeletionPolicy = "Delete"
	// DeletionPolicyOrphan releases the children before the object is deleted:
	// they keep running and are no longer managed.
	DeletionPolicyOrphan DeletionPolicy = "Orphan"
)
