(** * The Jacobian of GradTopK is a covariance

    The derivative of the share of [i] by the score [j] is the chance that a random subset
    has both, less the product of the two shares ([share_covariance]).  The matrix is
    symmetric ([covariance_symmetric]) and positive semidefinite ([covariance_positive]),
    and its rows sum to zero ([covariance_rows]). *)

From Coq Require Import Reals Lra Lia Arith List Sorted.
From Coquelicot Require Import Coquelicot.
From TopK Require Import Sums Derivative GradTopK.
Import ListNotations.
Open Scope R_scope.

(** The part of [Z] with the subsets that have [i] and [j]. *)
Definition Zij w n k i j :=
  total_weight w (filter (has j) (filter (has i) (subsets n k))).

(** The covariance of two memberships. *)
Definition covariance w n k i j := Zij w n k i j / Z w n k - share w n k i * share w n k j.

(** ** A sum over any family of subsets *)

Lemma move_same x j i : move x j (x j) i = x i.
Proof. unfold move; now destruct (Nat.eqb_spec i j) as [->|]. Qed.

Lemma weight_ext w w' s : (forall i, w i = w' i) -> weight w s = weight w' s.
Proof. intros H; induction s as [|i s IH]; simpl; [reflexivity|now rewrite IH, H]. Qed.

Lemma total_ext w w' F : (forall i, w i = w' i) -> total_weight w F = total_weight w' F.
Proof.
  intros H; induction F as [|s F IH]; simpl; [reflexivity|].
  now rewrite IH, (weight_ext w w').
Qed.

Lemma has_spec i s : has i s = true <-> In i s.
Proof.
  unfold has; rewrite existsb_exists; split.
  - intros [j [Hj E]]; apply Nat.eqb_eq in E; now subst j.
  - intros H; exists i; split; [exact H|apply Nat.eqb_refl].
Qed.

(** A product of exponentials is its own derivative if it has the moving score, and does
    not move otherwise. *)
Lemma weight_derivative x j s : NoDup s ->
  is_derive (fun t => weight (weights (move x j t)) s) (x j)
            (if has j s then weight (weights x) s else 0).
Proof.
  induction s as [|i s IH]; intros Hs; [apply (is_derive_const 1)|].
  inversion Hs as [|? ? Hi Hs']; subst; specialize (IH Hs').
  assert (Es : weight (weights (move x j (x j))) s = weight (weights x) s)
    by (apply weight_ext; intros h; unfold weights; now rewrite move_same).
  assert (Hf : is_derive (fun t => weights (move x j t) i) (x j)
                         (if Nat.eqb j i then exp (x i) else 0)).
  { destruct (Nat.eqb_spec j i) as [->|E].
    - apply (is_derive_ext exp).
      + intros t; unfold weights, move; now rewrite Nat.eqb_refl.
      + apply is_derive_Reals, derivable_pt_lim_exp.
    - apply (is_derive_ext (fun _ => exp (x i))).
      + intros t; unfold weights, move; destruct (Nat.eqb_spec i j); [lia|reflexivity].
      + apply (is_derive_const (exp (x i))). }
  evar_last.
  - apply (is_derive_mult (fun t => weights (move x j t) i)
      (fun t => weight (weights (move x j t)) s) (x j) _ _ Hf IH); intros; apply Rmult_comm.
  - rewrite Es; unfold weights at 2; rewrite move_same.
    unfold plus, mult; simpl; unfold has; simpl; fold (has j s).
    destruct (Nat.eqb_spec j i) as [->|E]; simpl.
    + replace (has i s) with false; [unfold weights; ring|].
      symmetry; apply Bool.not_true_is_false; now rewrite has_spec.
    + destruct (has j s); unfold weights; ring.
Qed.

Lemma family_derivative x j F : (forall s, In s F -> NoDup s) ->
  is_derive (fun t => total_weight (weights (move x j t)) F) (x j)
            (total_weight (weights x) (filter (has j) F)).
Proof.
  induction F as [|s F IH]; intros H; [apply (is_derive_const 0)|].
  evar_last.
  - apply (is_derive_plus (fun t => weight (weights (move x j t)) s)
      (fun t => total_weight (weights (move x j t)) F)).
    + apply weight_derivative, H; now left.
    + apply IH; intros; apply H; now right.
  - unfold plus; simpl; destruct (has j s); simpl; ring.
Qed.

Lemma sorted_NoDup s : StronglySorted gt s -> NoDup s.
Proof.
  induction s as [|i s IH]; intros H; [constructor|].
  inversion H as [|? ? Hs Hi]; subst; constructor; [|now apply IH].
  intros Hin; rewrite Forall_forall in Hi; specialize (Hi i Hin); lia.
Qed.

Lemma subsets_NoDup n k s : In s (subsets n k) -> NoDup s.
Proof. intros H; apply sorted_NoDup; now apply (subsets_complete n k). Qed.

(** ** The statements *)

Theorem share_covariance x n k i j : (k <= n)%nat ->
  is_derive (fun t => share (weights (move x j t)) n k i) (x j)
            (covariance (weights x) n k i j).
Proof.
  intros Hk; assert (Hp : 0 < Z (weights x) n k)
    by (apply Z_positive; [intros; apply exp_pos|exact Hk]).
  assert (Hw : forall h, weights (move x j (x j)) h = weights x h)
    by (intros h; unfold weights; now rewrite move_same).
  assert (EZ : Z (weights (move x j (x j))) n k = Z (weights x) n k)
    by (now apply total_ext).
  assert (Ei : Zi (weights (move x j (x j))) n k i = Zi (weights x) n k i)
    by (now apply total_ext).
  unfold share at 1; evar_last.
  - apply (is_derive_div (fun t => Zi (weights (move x j t)) n k i)
      (fun t => Z (weights (move x j t)) n k)).
    + apply (family_derivative x j (filter (has i) (subsets n k))).
      intros s Hs; apply filter_In in Hs as [Hs _]; now apply (subsets_NoDup n k).
    + apply (family_derivative x j (subsets n k)); apply subsets_NoDup.
    + rewrite EZ; lra.
  - rewrite EZ, Ei; fold (Zij (weights x) n k i j); fold (Zi (weights x) n k j).
    unfold covariance, share; field; lra.
Qed.

(** A subset has [k] entries, so the pairs with [i] are [k] times as many as the subsets. *)
Lemma has_count n s : NoDup s -> (forall i, In i s -> (i < n)%nat) ->
  ∑_(j < n) (if has j s then 1 else 0) = INR (length s).
Proof.
  induction s as [|i s IH]; intros Hs Hb; [simpl; apply sum_zero|].
  inversion Hs as [|? ? Hi Hs']; subst.
  rewrite (sum_ext n _ (fun j => (if Nat.eqb j i then 1 else 0)
    + (if has j s then 1 else 0))).
  - rewrite sum_plus, (sum_delta n i (fun _ => 1)) by (apply Hb; now left).
    rewrite IH; [|exact Hs'|intros; apply Hb; now right].
    simpl length; rewrite S_INR; ring.
  - intros j _; unfold has at 1; simpl; fold (has j s).
    destruct (Nat.eqb_spec j i) as [->|E]; simpl; [|ring].
    replace (has i s) with false; [ring|].
    symmetry; apply Bool.not_true_is_false; now rewrite has_spec.
Qed.

Lemma family_sum w n k F : (forall s, In s F -> In s (subsets n k)) ->
  ∑_(j < n) total_weight w (filter (has j) F) = INR k * total_weight w F.
Proof.
  induction F as [|s F IH]; intros H.
  - simpl; rewrite sum_zero; ring.
  - rewrite (sum_ext n _ (fun j => weight w s * (if has j s then 1 else 0)
      + total_weight w (filter (has j) F))).
    + rewrite sum_plus, sum_scal, IH by (intros; apply H; now right).
      assert (Hs : In s (subsets n k)) by (apply H; now left).
      destruct (proj1 (proj1 (subsets_complete n k) s) Hs) as [_ [Hl Hb]].
      rewrite (has_count n s (subsets_NoDup n k s Hs) Hb), Hl; simpl; ring.
    + intros j _; simpl; destruct (has j s); simpl; ring.
Qed.

Theorem covariance_rows w n k i : (k <= n)%nat -> (forall h, (h < n)%nat -> 0 < w h) ->
  ∑_(j < n) covariance w n k i j = 0.
Proof.
  intros Hk Hw; assert (HZ := Z_positive w n Hw k Hk).
  unfold covariance, Rdiv; rewrite sum_minus, sum_scal, (share_sum w n k Hk Hw).
  rewrite (sum_ext n _ (fun j => / Z w n k * Zij w n k i j)) by (intros; ring).
  rewrite sum_scal; unfold Zij.
  rewrite (family_sum w n k (filter (has i) (subsets n k))).
  - fold (Zi w n k i); unfold share; field; lra.
  - intros s Hs; now apply filter_In in Hs.
Qed.

Theorem covariance_symmetric w n k i j : covariance w n k i j = covariance w n k j i.
Proof.
  assert (E : forall F, filter (has j) (filter (has i) F) = filter (has i) (filter (has j) F)).
  { induction F as [|s F IH]; [reflexivity|]; simpl.
    destruct (has i s) eqn:Ei, (has j s) eqn:Ej; simpl; rewrite ?Ei, ?Ej, IH; reflexivity. }
  unfold covariance, Zij; rewrite E; ring.
Qed.

(** ** Positive semidefinite *)

(** The sum of what a subset has of [v], and the weighted sum of a function of subsets. *)
Definition worth n (v : nat -> R) s := ∑_(i < n) (if has i s then v i else 0).
Definition moment (w : nat -> R) (g : list nat -> R) (F : list (list nat)) :=
  fold_right (fun s a => weight w s * g s + a) 0 F.

Lemma moment_one w F : total_weight w F = moment w (fun _ => 1) F.
Proof. induction F as [|s F IH]; simpl; [reflexivity|rewrite IH; ring]. Qed.

Lemma moment_worth w n v g F :
  ∑_(i < n) v i * moment w g (filter (has i) F) = moment w (fun s => worth n v s * g s) F.
Proof.
  induction F as [|s F IH]; simpl.
  - rewrite (sum_ext n _ (fun _ => 0)), sum_zero by (intros; ring); reflexivity.
  - rewrite <- IH, (sum_ext n _ (fun i => weight w s * g s * (if has i s then v i else 0)
      + v i * moment w g (filter (has i) F))).
    + rewrite sum_plus, sum_scal; fold (worth n v s); ring.
    + intros i _; destruct (has i s); simpl; ring.
Qed.

Lemma weight_positive x s : 0 < weight (weights x) s.
Proof.
  induction s as [|i s IH]; simpl; [lra|].
  apply Rmult_lt_0_compat; [apply exp_pos|exact IH].
Qed.

(** The mean square of what differs from a number. *)
Lemma moment_square x n v m F :
  0 <= moment (weights x) (fun s => worth n v s * (worth n v s * 1)) F
    - 2 * m * moment (weights x) (fun s => worth n v s * 1) F
    + m ^ 2 * total_weight (weights x) F.
Proof.
  induction F as [|s F IH]; simpl in *; [lra|].
  pose proof (Rmult_le_pos _ _ (Rlt_le _ _ (weight_positive x s))
    (pow2_ge_0 (worth n v s - m))) as H.
  lra.
Qed.

(** The form of the matrix is the variance of the worth of the random subset. *)
Theorem covariance_positive x n k v : (k <= n)%nat ->
  0 <= ∑_(i < n) ∑_(j < n) v i * covariance (weights x) n k i j * v j.
Proof.
  intros Hk; assert (HZ : 0 < Z (weights x) n k)
    by (apply Z_positive; [intros; apply exp_pos|exact Hk]).
  set (w := weights x) in *; set (F := subsets n k).
  set (M1 := moment w (fun s => worth n v s * 1) F).
  set (M2 := moment w (fun s => worth n v s * (worth n v s * 1)) F).
  assert (E1 : ∑_(i < n) v i * Zi w n k i = M1).
  { unfold M1; rewrite <- moment_worth; apply sum_ext; intros i _.
    unfold Zi; now rewrite moment_one. }
  assert (E2 : ∑_(i < n) ∑_(j < n) v i * (v j * Zij w n k i j) = M2).
  { unfold M2; rewrite <- (moment_worth w n v (fun s => worth n v s * 1) F).
    apply sum_ext; intros i _; rewrite sum_scal; f_equal.
    rewrite <- moment_worth; apply sum_ext; intros j _; unfold Zij; now rewrite moment_one. }
  assert (E : ∑_(i < n) ∑_(j < n) v i * covariance w n k i j * v j
    = M2 / Z w n k - (M1 / Z w n k) ^ 2).
  { rewrite (sum_ext n _ (fun i => / Z w n k * (∑_(j < n) v i * (v j * Zij w n k i j))
      - M1 / Z w n k ^ 2 * (v i * Zi w n k i))).
    - rewrite sum_minus, !sum_scal, E1, E2; field; lra.
    - intros i _; rewrite <- E1.
      rewrite (sum_ext n _ (fun j => / Z w n k * (v i * (v j * Zij w n k i j))
        - v i * Zi w n k i / Z w n k ^ 2 * (v j * Zi w n k j))).
      + rewrite sum_minus, !sum_scal; field; lra.
      + intros j _; unfold covariance, share; field; lra. }
  rewrite E; pose proof (moment_square x n v (M1 / Z w n k) F) as H.
  fold w in H; fold M1 M2 in H; fold (Z w n k) in H.
  replace (M2 / Z w n k - (M1 / Z w n k) ^ 2)
    with ((M2 - 2 * (M1 / Z w n k) * M1 + (M1 / Z w n k) ^ 2 * Z w n k) / Z w n k)
    by (field; lra).
  apply Rmult_le_pos; [exact H|now apply Rlt_le, Rinv_0_lt_compat].
Qed.
