(** * The matrix [J = diag w - w w^T / W]

    Every Jacobian of a selection has this form.  It is symmetric, its rows sum to
    zero, its form is that of a weighted graph Laplacian ([J_laplacian]), hence
    positive semidefinite ([J_positive]), zero on the vectors that are constant where the
    slopes are positive, and on no others ([J_kernel]), below the diagonal matrix of the
    slopes ([J_below_diagonal]) and bounded by the largest of them ([J_bounded]). *)

From Coq Require Import Reals Lra Lia Arith.
From TopK Require Import Sums.
Open Scope R_scope.

Definition total n (w : nat -> R) := ∑_(i < n) w i.

Definition J n w i j := (if Nat.eqb i j then w i else 0) - w i * w j / total n w.

(** [v^T J v] *)
Definition form n w (v : nat -> R) := ∑_(i < n) ∑_(j < n) v i * J n w i j * v j.

Theorem J_symmetric n w i j : J n w i j = J n w j i.
Proof.
  unfold J; rewrite (Nat.eqb_sym j i).
  destruct (Nat.eqb_spec i j) as [->|_]; [reflexivity|unfold Rdiv; ring].
Qed.

Theorem J_rows n w i : total n w <> 0 -> (i < n)%nat -> ∑_(j < n) J n w i j = 0.
Proof.
  intros HW Hi; unfold J; rewrite sum_minus.
  rewrite (sum_ext _ _ (fun j => if Nat.eqb j i then w j else 0)).
  2: { intros j _; rewrite Nat.eqb_sym; now destruct (Nat.eqb_spec j i) as [->|]. }
  rewrite (sum_delta n i w Hi).
  rewrite (sum_ext _ _ (fun j => w i / total n w * w j)) by (intros; field; exact HW).
  rewrite sum_scal; fold (total n w); field; exact HW.
Qed.

(** The weighted sum of squares less the square of the weighted sum. *)
Lemma form_expand n w v :
  form n w v = ∑_(i < n) w i * v i ^ 2 - (∑_(i < n) w i * v i) ^ 2 / total n w.
Proof.
  unfold form.
  set (V := ∑_(i < n) w i * v i); set (W := total n w).
  rewrite (sum_ext n _ (fun i => w i * v i ^ 2 - V / W * (w i * v i))).
  - rewrite sum_minus, sum_scal; fold V; unfold Rdiv; ring.
  - intros i Hi.
    rewrite (sum_ext n _ (fun j => v i * (if Nat.eqb j i then w j * v j else 0)
                                   - (w i * v i / W) * (w j * v j))).
    + rewrite sum_minus, !sum_scal, (sum_delta n i (fun j => w j * v j) Hi).
      fold V; unfold Rdiv; ring.
    + intros j _; unfold J; fold W; rewrite (Nat.eqb_sym i j).
      destruct (Nat.eqb_spec j i) as [->|_]; unfold Rdiv; ring.
Qed.

(** Every pair of entries contributes the square of their difference. *)
Theorem J_laplacian n w v : total n w <> 0 ->
  form n w v = ∑_(i < n) ∑_(j < n) w i * w j * (v i - v j) ^ 2 / (2 * total n w).
Proof.
  intros HW; rewrite form_expand; set (W := total n w) in *.
  set (V := ∑_(i < n) w i * v i); set (Q := ∑_(i < n) w i * v i ^ 2).
  rewrite (sum_ext n (fun i => ∑_(j < n) w i * w j * (v i - v j) ^ 2 / (2 * W))
    (fun i => (/ 2 * (w i * v i ^ 2) + Q / (2 * W) * w i) - V / W * (w i * v i))).
  - rewrite sum_minus, sum_plus, !sum_scal; fold V Q (total n w); fold W.
    field; exact HW.
  - intros i _.
    rewrite (sum_ext n _ (fun j => (w i * v i ^ 2 / (2 * W) * w j
      + w i / (2 * W) * (w j * v j ^ 2)) - w i * v i / W * (w j * v j)))
      by (intros; field; exact HW).
    rewrite sum_minus, sum_plus, !sum_scal; fold V Q (total n w); fold W.
    field; exact HW.
Qed.

Theorem J_positive n w v : (forall i, (i < n)%nat -> 0 <= w i) -> 0 < total n w ->
  0 <= form n w v.
Proof.
  intros Hw HW; rewrite J_laplacian by lra.
  apply sum_nonneg; intros i Hi; apply sum_nonneg; intros j Hj.
  apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat; lra].
  apply Rmult_le_pos; [apply Rmult_le_pos; auto|apply pow2_ge_0].
Qed.

(** A sum of squares is zero only if each of them is. *)
Theorem J_kernel n w v : (forall i, (i < n)%nat -> 0 <= w i) -> 0 < total n w ->
  (form n w v = 0 <->
   forall i j, (i < n)%nat -> (j < n)%nat -> 0 < w i -> 0 < w j -> v i = v j).
Proof.
  intros Hw HW; rewrite J_laplacian by lra.
  assert (H2W : 0 < / (2 * total n w)) by (apply Rinv_0_lt_compat; lra).
  assert (Hp : forall i j, (i < n)%nat -> (j < n)%nat ->
    0 <= w i * w j * (v i - v j) ^ 2 / (2 * total n w)).
  { intros i j Hi Hj; apply Rmult_le_pos; [|lra].
    apply Rmult_le_pos; [apply Rmult_le_pos; auto|apply pow2_ge_0]. }
  split.
  - intros H i j Hi Hj Hwi Hwj.
    assert (E : 0 = ∑_(j < n) w i * w j * (v i - v j) ^ 2 / (2 * total n w)).
    { apply (eq_of_sum_le n (fun _ => 0)
        (fun i => ∑_(j < n) w i * w j * (v i - v j) ^ 2 / (2 * total n w))); [| |exact Hi].
      - intros h Hh; apply sum_nonneg; auto.
      - rewrite H, sum_zero; lra. }
    assert (E' : 0 = w i * w j * (v i - v j) ^ 2 / (2 * total n w)).
    { apply (eq_of_sum_le n (fun _ => 0)
        (fun j => w i * w j * (v i - v j) ^ 2 / (2 * total n w))); [auto| |exact Hj].
      rewrite <- E, sum_zero; lra. }
    assert (Hww : 0 < w i * w j) by now apply Rmult_lt_0_compat.
    assert (Hz : (v i - v j) ^ 2 = 0).
    { apply Rmult_eq_reg_l with (w i * w j / (2 * total n w)).
      - unfold Rdiv in *; lra.
      - apply Rgt_not_eq; now apply Rdiv_lt_0_compat; [|lra]. }
    assert (v i - v j = 0) by nra; lra.
  - intros H; rewrite <- (sum_zero n); apply sum_ext; intros i Hi.
    rewrite <- (sum_zero n); apply sum_ext; intros j Hj.
    destruct (Hw i Hi) as [Hwi|<-]; [|unfold Rdiv; ring].
    destruct (Hw j Hj) as [Hwj|<-]; [|unfold Rdiv; ring].
    rewrite (H i j Hi Hj Hwi Hwj); unfold Rdiv; ring.
Qed.

(** What is taken from the diagonal is a square. *)
Theorem J_below_diagonal n w v : 0 < total n w ->
  form n w v <= ∑_(i < n) w i * v i ^ 2.
Proof.
  intros HW; rewrite form_expand.
  assert (0 <= (∑_(i < n) w i * v i) ^ 2 / total n w); [|lra].
  apply Rmult_le_pos; [apply pow2_ge_0|now apply Rlt_le, Rinv_0_lt_compat].
Qed.

Theorem J_bounded n w v c : 0 < total n w -> (forall i, (i < n)%nat -> w i <= c) ->
  form n w v <= c * ∑_(i < n) v i ^ 2.
Proof.
  intros HW Hc; apply Rle_trans with (1 := J_below_diagonal n w v HW).
  rewrite <- sum_scal; apply sum_le; intros i Hi.
  apply Rmult_le_compat_r; [apply pow2_ge_0|auto].
Qed.
